"""The review queue in a real browser: by keyboard, in bulk, and back again."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.models import Agent, ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.proposals import identity_propose
from tests.e2e.conftest import press_key
from tests.factories import make_proposal, make_review

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LogIn = Callable[..., Page]
TEXTS = {"values": "Truth first.", "boundaries": "Never lie.", "protocols": "Ask first."}


@pytest.fixture
def waiting(ada: Agent, actor: Principal) -> dict[str, ChangeProposal]:
    """Ada's wishes in the order of the queue: two of high risk, one of low."""
    made = {}
    for section, text in TEXTS.items():
        result = identity_propose(agent=ada, section=section, content=text, reason="Learned.", by=actor, wait=True)
        assert result.proposal is not None
        made[section] = result.proposal
    return made


def status(proposal: ChangeProposal) -> str:
    return ChangeProposal.objects.get(pk=proposal.pk).status


def queue(log_in: LogIn, user: User, query: str = "", **how: object) -> Page:
    page = log_in(user, **how)
    page.goto(f"/review/{query}")
    return page


def arrive(page: Page, heading: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)


def test_approval_by_keyboard_advances_and_can_be_undone(
    log_in: LogIn, waiting: dict[str, ChangeProposal], bob: User
) -> None:
    page = queue(log_in, bob)
    press_key(page, "j")
    press_key(page, "Enter")
    arrive(page, "Values of Ada")
    press_key(page, "a")
    arrive(page, "Boundaries of Ada")
    expect(page.locator(".review-undo")).to_contain_text("Approved Values of Ada")
    assert IdentityVersion.objects.current().get(section="values").content == TEXTS["values"]
    page.goto("/inbox/")
    press_key(page, "u")
    expect(page.locator(".review-undo")).to_contain_text("Approved Values of Ada")
    assert status(waiting["values"]) == "approved", "the key shows first what it would undo"
    press_key(page, "u")
    expect(page.get_by_text("The decision on")).to_be_visible()
    arrive(page, "Inbox")
    expect(page.locator(".item-row.is-selected")).to_contain_text(TEXTS["values"])
    assert status(waiting["values"]) == "pending"
    press_key(page, "Enter")
    arrive(page, "Values of Ada")
    page.goto("/inbox/")
    press_key(page, "u")
    expect(page.locator(".review-undo")).to_contain_text("Nothing to undo")


def test_next_and_previous_stay_in_the_filtered_queue(
    log_in: LogIn, waiting: dict[str, ChangeProposal], bob: User
) -> None:
    page = queue(log_in, bob, "?risk=high")
    page.get_by_role("link", name="Start reviewing").click()
    arrive(page, "Values of Ada")
    press_key(page, "j")
    arrive(page, "Boundaries of Ada")
    expect(page.get_by_text("2 of 2")).to_be_visible()
    press_key(page, "k")
    arrive(page, "Values of Ada")


def test_keys_are_silent_while_typing_and_the_comment_is_kept(
    log_in: LogIn, waiting: dict[str, ChangeProposal], bob: User
) -> None:
    page = log_in(bob)
    page.goto(f"/review/{waiting['values'].pk}/")
    press_key(page, "c")
    page.keyboard.type("a rather early jump, keep it out")
    expect(page.locator("#comment")).to_have_value("a rather early jump, keep it out")
    assert status(waiting["values"]) == "pending"
    press_key(page, "Tab")
    press_key(page, "r")
    arrive(page, "Boundaries of Ada")
    expect(page.locator(".review-undo")).to_contain_text("Rejected Values of Ada")
    decided = ChangeProposal.objects.get(pk=waiting["values"].pk)
    assert (decided.status, decided.comment) == ("rejected", "a rather early jump, keep it out")


def test_edit_shows_its_difference_while_typing(log_in: LogIn, waiting: dict[str, ChangeProposal], bob: User) -> None:
    page = log_in(bob)
    page.goto(f"/review/{waiting['values'].pk}/")
    press_key(page, "e")
    page.get_by_label("Text to approve").fill("Truth first, kindly.")
    expect(page.locator("#edit-diff .diff-text.is-added").last).to_contain_text("Truth first, kindly.")
    page.get_by_role("button", name="Approve my edit").click()
    arrive(page, "Boundaries of Ada")
    expect(page.locator(".review-undo")).to_contain_text("Approved Values of Ada")
    assert IdentityVersion.objects.current().get(section="values").content == "Truth first, kindly."


def test_bulk_approval_has_one_undo(
    log_in: LogIn, ada: Agent, actor: Principal, waiting: dict[str, ChangeProposal], bob: User
) -> None:
    more = make_proposal(ada, actor, "preferences", "Tables.")
    page = queue(log_in, bob, "?risk=low")
    expect(page.get_by_role("button", name="Approve selected")).to_be_hidden()
    press_key(page, "j")
    press_key(page, "x")
    press_key(page, "j")
    press_key(page, "x")
    expect(page.get_by_text("2 selected")).to_be_visible()
    # Enter in the comment must not press any button.
    page.get_by_label("Comment on all selected").fill("Both are fine.")
    press_key(page, "Enter")
    page.get_by_role("button", name="Approve selected").click()
    expect(page.locator(".review-undo")).to_contain_text("2 proposals")
    assert [status(proposal) for proposal in waiting.values()] == ["pending", "pending", "approved"]
    assert status(more) == "approved"
    press_key(page, "u")
    expect(page.get_by_text("2 decisions were undone")).to_be_visible()
    assert {status(proposal) for proposal in (*waiting.values(), more)} == {"pending"}


def test_keys_decide_about_the_selected_row_only(log_in: LogIn, waiting: dict[str, ChangeProposal], bob: User) -> None:
    page = queue(log_in, bob)
    press_key(page, "a")
    press_key(page, "j")
    press_key(page, "j")
    press_key(page, "r")
    expect(page.locator(".review-undo")).to_contain_text("Rejected Boundaries of Ada")
    assert [status(proposal) for proposal in waiting.values()] == ["pending", "rejected", "pending"]


def test_list_shows_what_it_approves_and_goes_on(
    log_in: LogIn, ada: Agent, actor: Principal, waiting: dict[str, ChangeProposal], bob: User
) -> None:
    more = make_proposal(ada, actor, "preferences", "Tables.")
    page = queue(log_in, bob)
    changes = page.locator(".queue-text")
    expect(changes.get_by_text("Truth first.")).to_be_hidden()
    press_key(page, "j")
    expect(changes.get_by_text("Truth first.")).to_be_visible()
    expect(page.get_by_role("button", name="Approve + Truth first.")).to_have_count(0)
    press_key(page, "a")
    press_key(page, "j")
    press_key(page, "j")
    expect(changes.get_by_text("Truth first.")).to_be_hidden()
    expect(changes.get_by_text("Ask first.")).to_be_visible()
    press_key(page, "a")
    expect(page.locator(".review-undo")).to_contain_text("Approved Protocols of Ada")
    # The row that took its place is selected and shown: the same key decides and goes on.
    expect(changes.get_by_text("Tables.")).to_be_visible()
    press_key(page, "a")
    expect(page.locator(".review-undo")).to_contain_text("Approved Preferences of Ada")
    assert [status(proposal) for proposal in (*waiting.values(), more)] == [
        "pending",
        "pending",
        "approved",
        "approved",
    ]


def test_decision_stays_in_the_window_on_a_long_difference(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    text = "\n".join(f"Line {place} of a long manual." for place in range(200))
    proposal = make_proposal(ada, actor, "values", text)
    page = log_in(bob)
    page.goto(f"/review/{proposal.pk}/")
    expect(page.get_by_role("button", name="Approve", exact=False).first).to_be_in_viewport()


def test_bulk_bar_offers_what_applies_to_all_that_is_ticked(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    high = make_proposal(ada, actor)
    low = make_proposal(ada, actor, "protocols", "Ask first.")
    pair = make_review(ada, actor, "The lift never stops at night.", "The lift sometimes stops at night.")
    page = log_in(bob)
    page.goto("/inbox/")
    offered = page.locator("[data-bulkbar]").get_by_role("button")
    tick = {row.pk: page.locator(f"input[value$='{row.pk}']") for row in (high, low, pair)}
    tick[low.pk].check()
    for name in ("Approve selected", "Reject selected", "Snooze"):
        expect(offered.filter(has_text=name)).to_be_visible()
    expect(offered.filter(has_text="Both are true")).to_be_hidden()
    tick[high.pk].check()
    expect(offered.filter(has_text="Approve selected")).to_be_hidden()
    expect(offered.filter(has_text="Reject selected")).to_be_visible()
    tick[pair.pk].check()
    expect(offered.filter(has_text="Reject selected")).to_be_hidden()
    expect(offered.filter(has_text="Snooze")).to_be_visible()
    tick[high.pk].uncheck()
    tick[low.pk].uncheck()
    expect(offered.filter(has_text="Both are true")).to_be_visible()
    assert page.locator("[data-bulkbar]").evaluate("bar => bar.offsetHeight") < 2 * 32, "one line"
    press_key(page, "5")
    expect(page.locator(".review-undo")).to_contain_text("Both are true")
    pair.refresh_from_db()
    assert (status(low), pair.status) == ("pending", "resolved")


def test_bulk_bar_of_a_phone_is_one_line_that_unfolds(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    low = make_proposal(ada, actor, "protocols", "Ask first.")
    page = log_in(bob, width=390, height=844)
    page.goto("/inbox/")
    page.locator(f"input[value$='{low.pk}']").check()
    bar = page.locator("[data-bulkbar]")
    expect(bar.get_by_role("button", name="Approve selected")).to_be_visible()
    for name in ("Reject selected", "Snooze", "Assign"):
        expect(bar.get_by_role("button", name=name)).to_be_hidden()
    assert bar.evaluate("bar => bar.offsetHeight") < 2 * 44
    text = page.locator("details[data-unfold]")
    expect(text).not_to_have_attribute("open", "")
    bar.get_by_role("button", name="Approve selected").click()
    expect(text).to_have_attribute("open", "")
    assert status(low) == "pending", "its text is to be read first"
    bar.get_by_text("More").click()
    for name in ("Approve selected", "Snooze", "Assign"):
        expect(bar.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
    bar.get_by_role("button", name="Reject selected").click()
    expect(page.locator(".review-undo")).to_contain_text("Rejected")
    assert status(low) == "rejected"


def test_rivals_are_compared_and_one_is_chosen(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    rivals = [make_proposal(ada, actor, "boundaries", f"Never {what}.") for what in ("lie", "guess", "promise")]
    page = log_in(bob)
    page.goto("/inbox/")
    page.get_by_role("link", name="Compare 3").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("3 changes to Boundaries of Ada")
    buttons = page.get_by_role("button", name="Approve this one Edits")
    expect(buttons).to_have_count(3)
    assert len({buttons.nth(place).bounding_box()["y"] for place in range(3)}) == 1, "at one height"
    expect(page.locator("[data-read][data-seen]")).to_have_count(3)
    press_key(page, "2")
    told = "Boundaries of Ada: Edits “Never guess.”; the other 2 were rejected."
    expect(page.locator(".review-undo")).to_contain_text(told)
    assert [status(rival) for rival in rivals] == ["rejected", "approved", "rejected"]
