"""The inbox worked off by keys alone, as benchmarks.inbox_keys does it in full size, against a list of decisions."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from playwright.sync_api import Page, expect

from benchmarks.inbox_items import differences, items_made
from benchmarks.inbox_keys import WATCH, worked_off
from identity.models import Agent, ChangeProposal, ItemAssignment
from identity.principal import Principal
from identity.services.proposals import identity_propose, proposal_approve, proposal_reject
from memory.models import MemoryReview
from nousweb.lib.transactions import sql_change
from tests.e2e.conftest import press_key
from tests.factories import make_copies, make_proposal, make_review
from tests.product import until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_inbox_is_worked_off_by_a_key_for_each_item(log_in: Callable[..., Page], charlie: User) -> None:
    gold = items_made(Principal.of_user(charlie), 6, 8)
    page = log_in(charlie)
    page.add_init_script(WATCH)
    work = worked_off(page, gold)
    assert differences(gold) == []
    assert work.keys == 2 + len(gold), "two to begin with, and one for each"
    expect(page.get_by_role("heading", name="Nothing is pending")).to_be_visible()


def test_refused_decision_brings_its_item_back(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User, charlie: User
) -> None:
    first, second = make_proposal(ada, actor), make_proposal(ada, actor, "boundaries", "Never lie.")
    page = log_in(bob)
    with page.expect_response(lambda response: f"{second.pk}" in response.url):
        page.goto(f"/review/{first.pk}/")
    proposal_reject(proposal=first, by=Principal.of_user(charlie))
    page.locator("#comment").fill("I would take it.")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("alert").get_by_text("Not done.")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Values of Ada")
    assert f"/review/{first.pk}/" in page.url
    assert ChangeProposal.objects.get(pk=second.pk).status == "pending"


def test_list_beside_an_item_goes_on_with_the_decisions(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    for section in ("values", "boundaries", "protocols"):
        make_proposal(ada, actor, section, f"Text of {section}.")
    page = log_in(bob)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/inbox/")
    page.get_by_role("link", name="Start reviewing").click()
    listed = page.locator("#inbox-beside li")
    current = page.locator("#inbox-beside [aria-current=page]")
    expect(listed).to_have_count(3)
    expect(current).to_contain_text("Text of values.")
    page.locator("[data-read][data-seen]").wait_for(state="attached")
    press_key(page, "a")
    expect(listed).to_have_count(2)
    expect(current).to_contain_text("Text of boundaries.")
    # A list that comes to its end is read again: what came meanwhile is in it.
    make_proposal(ada, actor, "preferences", "Tables.")
    page.locator("[data-read][data-seen]").wait_for(state="attached")
    press_key(page, "a")
    expect(listed).to_have_text([re.compile("Text of protocols"), re.compile("Tables")])


def test_numbers_beside_an_item_follow_each_decision(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    for number in range(9):
        make_proposal(ada, actor, "values", f"Value {number} of nine.")
    make_review(ada, actor, "The lift never stops at night.", "The lift sometimes stops at night.")
    page = log_in(bob)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/inbox/")
    page.get_by_role("link", name="Start reviewing").click()
    parts = page.locator(".inbox-beside-head > a")
    expect(parts).to_have_text(["All 10", "Identity 9", "Reviews 1"])
    page.locator("[data-read][data-seen]").wait_for(state="attached")
    press_key(page, "r")
    expect(parts).to_have_text(["All 9", "Identity 8", "Reviews 1"])


def test_applied_change_leaves_all_beside_it_as_it_is(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    for number in range(9):
        make_proposal(ada, actor, "values", f"Value {number} of nine.")
    made = identity_propose(agent=ada, section="preferences", content="Be brief.", reason="Asked.", by=actor)
    assert made.action == "applied"
    make_copies(made.proposal, 8)
    page = log_in(bob)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/inbox/?view=applied&start=1")
    parts = page.locator(".inbox-beside-head > a")
    expect(parts).to_have_text(["All 9", "Identity 9", "Applied without review 9"])
    page.locator("[data-read][data-seen]").wait_for(state="attached")
    press_key(page, "a")
    expect(page.locator("#inbox-beside li")).to_have_count(8)
    expect(parts).to_have_text(["All 9", "Identity 9", "Applied without review 8"])


def test_selected_row_is_taken_by_key(log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User) -> None:
    make_proposal(ada, actor, "values", "Text of values.")
    make_proposal(ada, actor, "boundaries", "Text of boundaries.")
    page = log_in(bob)
    page.goto("/inbox/")
    rows = page.locator("[data-keyitem]")
    press_key(page, "j")
    expect(rows.nth(0).get_by_role("button", name="Assign to me")).to_be_visible()
    expect(rows.nth(1).get_by_role("button", name="Assign to me")).to_be_hidden()
    press_key(page, "A")
    expect(rows.nth(0).get_by_role("img", name="assigned to bob")).to_be_visible()
    assert ItemAssignment.objects.get().person == bob
    # Of what is ticked, the bar decides who gets it.
    press_key(page, "j")
    page.keyboard.press("x")
    press_key(page, "A")
    expect(page.get_by_label("Assign to", exact=True)).to_be_focused()


def test_items_of_one_assignee_are_chosen_by_key(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    make_proposal(ada, actor, "values", "Text of values.")
    page = log_in(bob)
    page.goto("/inbox/")
    press_key(page, "M")
    expect(page.get_by_label("Assignee")).to_be_focused()
    page.get_by_label("Assignee").select_option("Assigned to me")
    expect(page).to_have_url(re.compile("assignee=me"))
    expect(page.get_by_text("No item matches these filters")).to_be_visible()


LIFTS = [f"lift {place}" for place in range(4)]


def lift_reviews(ada: Agent, actor: Principal) -> list[MemoryReview]:
    said = [(f"The {lift} never stops here.", f"The {lift} sometimes stops here.", lift) for lift in LIFTS]
    return [make_review(ada, actor, *each) for each in said]


@contextmanager
def held_up(agent: Agent) -> Iterator[None]:
    """Every decision about the agent waits until then, as it does beside an erasure."""
    with transaction.atomic():
        sql_change("SELECT nous_agent_hold(%s, alone => true)", [agent.pk])
        yield


def keys_pressed(page: Page, keys: str) -> None:
    """Each key decides one item: the next one follows although no decision has been answered."""
    page.goto("/inbox/?view=reviews&start=1")
    expect(page.locator("#inbox-beside li")).to_have_count(len(LIFTS))
    page.wait_for_load_state("networkidle")
    for place, key in enumerate(keys):
        expect(page.get_by_role("heading", level=1)).to_contain_text(LIFTS[place])
        press_key(page, key)
    expect(page.get_by_role("heading", level=1)).to_contain_text(LIFTS[len(keys)])


def test_next_item_waits_for_no_answer(log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User) -> None:
    reviews = lift_reviews(ada, actor)
    page = log_in(bob)
    with held_up(ada):
        keys_pressed(page, "315")
        assert not MemoryReview.objects.filter(status="resolved").exists()
    expect(page.locator(".review-undo")).to_contain_text("lift 2")
    press_key(page, "3")
    expect(page.get_by_role("heading", name="No pending reviews")).to_be_visible()
    resolutions = [MemoryReview.objects.get(pk=review.pk).resolution for review in reviews]
    assert resolutions == ["replace", "same", "both", "replace"]


def test_decision_that_waits_for_another_one_is_made_although_its_page_is_left(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    lift_reviews(ada, actor)
    page = log_in(bob)
    with held_up(ada):
        keys_pressed(page, "35")
        page.goto("/")
    decided = MemoryReview.objects.filter(status="resolved").order_by("subject").values_list("subject", "resolution")
    until("both are made", lambda: list(decided.all()) == [("lift 0", "replace"), ("lift 1", "both")])


def test_page_that_comes_back_sends_no_decision_again(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    lift_reviews(ada, actor)
    page = log_in(bob)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    with held_up(ada):
        keys_pressed(page, "35")
        page.evaluate("() => { for (const event of [1, 2]) dispatchEvent(new PageTransitionEvent('pagehide')); }")
    expect(page.locator(".review-undo")).to_contain_text("lift 1")
    page.wait_for_load_state("networkidle")
    assert len(sent) == len(set(sent)) == 2


def test_approval_that_takes_another_one_for_made_is_not_sent_beside_it(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    lines = [f"Line {place}." for place in range(9)]
    base = make_proposal(ada, actor, "boundaries", "\n".join(lines))
    proposal_approve(proposal=base, by=Principal.of_user(bob))
    texts = [["Never lie.", *lines[1:]], [*lines[:-1], "Never guess."]]
    for text in texts:
        make_proposal(ada, actor, "boundaries", "\n".join(text))
    page = log_in(bob)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.goto("/inbox/?start=1")
    page.wait_for_load_state("networkidle")
    with transaction.atomic():
        list(ChangeProposal.objects.select_for_update())
        for text in texts:
            expect(page.locator("#main [data-read]").first).to_contain_text(next(one for one in text if "Never" in one))
            press_key(page, "a")
        asked = "() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))"
        assert page.evaluate(asked), "it would be lost without a word"
        page.evaluate("() => dispatchEvent(new PageTransitionEvent('pagehide'))")
        page.wait_for_timeout(300)
        assert len(sent) == 1
    expect(page.get_by_role("heading", name="Nothing is pending")).to_be_visible()
    assert len(sent) == 2
    assert not page.evaluate(asked)
    assert not ChangeProposal.objects.filter(status="pending").exists()


def test_long_text_of_many_bytes_is_approved_by_key(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    proposal = make_proposal(ada, actor, content="Правда прежде всего. " * 900)
    page = log_in(bob)
    page.goto(f"/review/{proposal.pk}/")
    page.locator(".decide-bar").scroll_into_view_if_needed()
    page.keyboard.press("End")
    press_key(page, "a")
    expect(page.get_by_role("heading", name="Nothing is pending")).to_be_visible()
    proposal.refresh_from_db()
    assert proposal.status == "approved"
