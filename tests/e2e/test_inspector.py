"""The inspector as a person uses it: live, explained, compared, in the past, and before a change."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Locator, Page, Route, expect

from context.expectations.services import expectation_create, expectations_verify, request_of
from context.models import ContextPin, ContextRun
from context.services.context import context_outcome, context_respond
from identity.models import Agent
from identity.principal import Principal
from identity.services.proposals import identity_propose
from memory.models import Censor, Fact, MemoryReview
from memory.services.censors import censor_create
from memory.services.facts import fact_learn, fact_supersede
from nousweb.console.context.views import compare_runs
from tests.e2e.conftest import press_key
from tests.factories import EXPORT, make_fact, make_facts, make_run, pair_review

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

REPLICA = "The ledger export failed because the replica lagged."


@pytest.fixture
def ledger(ada: Agent, system: Principal) -> Fact:
    make_fact(ada, "Traders export bananas by ship.", system, kind="")
    return make_fact(ada, REPLICA, system)


def test_inspector_preview_follows_the_typing_and_writes_nothing(
    ledger: Fact, charlie: User, log_in: Callable[..., Page]
) -> None:
    page = log_in(charlie)
    page.goto(reverse("agent_context", args=["ada"]))
    page.get_by_label("Input").fill(EXPORT)
    page.get_by_role("button", name="Prompt", exact=True).click()
    prompt = page.get_by_role("region", name="Text of the prompt")
    expect(prompt).to_contain_text(REPLICA)
    page.wait_for_url("**input=Why+did*")
    page.get_by_label("Kind of question").select_option("decision")
    page.wait_for_url("**frame=decision*")
    page.get_by_role("button", name="Why", exact=True).click()
    expect(page.locator("#result")).to_contain_text("Decision, because the request names it")
    page.get_by_role("button", name="Prompt", exact=True).click()
    expect(prompt.get_by_text("calm and exact")).to_be_hidden()
    prompt.get_by_role("button", name="Unfold all").click()
    expect(prompt.get_by_text("calm and exact")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Kind of question")).to_have_value("decision")
    expect(prompt).to_contain_text(REPLICA)
    page.locator("#inspector summary").get_by_text("More", exact=True).click()
    page.get_by_label("Conversation so far").fill("no speaker")
    page.get_by_label("Total budget").fill("0")
    expect(page.get_by_role("alert").filter(has_text="Line 1 has no speaker")).to_be_visible()
    expect(page.get_by_role("alert").filter(has_text="Total budget.")).to_be_visible()
    assert not ContextRun.objects.exists()


def test_tokens_and_what_was_left_out_stay_beside_a_long_prompt(
    ledger: Fact, charlie: User, log_in: Callable[..., Page]
) -> None:
    page = log_in(charlie, width=1440, height=500)
    page.goto(f"{reverse('agent_context', args=['ada'])}?input=Why+did+the+ledger+export+fail%3F")
    page.get_by_text("The whole prompt").scroll_into_view_if_needed()
    expect(page.get_by_label("Input")).not_to_be_in_viewport()
    expect(page.locator("#tokens-title")).to_be_in_viewport()
    left_out = page.get_by_role("region", name="Left out")
    expect(left_out.get_by_text("1 too far from the question")).to_be_in_viewport()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(left_out.get_by_text("1 too far from the question")).to_be_visible()
    expect(left_out.get_by_role("link", name="bananas")).to_be_hidden()


def test_inspector_candidate_is_explained_pinned_and_replayed(
    ada: Agent, system: Principal, charlie: User, log_in: Callable[..., Page]
) -> None:
    fact = make_fact(ada, REPLICA, system, importance=0.1)
    page = log_in(charlie)
    page.goto(reverse("agent_context", args=["ada"]) + "?input=Why+did+the+ledger+export+fail%3F&tab=left")
    row = page.get_by_role("row").filter(has_text="replica lagged").filter(has_text="not important enough")
    expect(row).to_contain_text("What would include it:")
    row.get_by_text("replica lagged").first.click()
    row.get_by_role("link").click()
    page.get_by_role("button", name="Pin").click()
    expect(page.get_by_role("button", name="Remove the pin")).to_be_visible()
    assert ContextPin.objects.get().item_id == str(fact.pk)
    press_key(page, "o")
    page.wait_for_url("**/context/?input=Why+did*")
    page.get_by_role("button", name="Memories").click()
    expect(page.locator("#memories")).to_contain_text("pinned")
    page.get_by_role("button", name="Prompt", exact=True).click()
    expect(page.get_by_role("region", name="Text of the prompt")).to_contain_text(REPLICA)


def test_inspector_candidates_are_filtered_ordered_and_paged(
    ledger: Fact, ada: Agent, actor: Principal, system: Principal, charlie: User, log_in: Callable[..., Page]
) -> None:
    make_facts(ada, [f"Export number {number} of the ledger failed at noon." for number in range(20)], system)
    # Of exports that failed some may contradict it: then only people let another fact take its place.
    _, new = fact_supersede(
        old=ledger,
        new=make_fact(ada, "The ledger export failed at a full disk.", system),
        by=Principal.of_user(charlie),
    )
    page = log_in(charlie)
    page.goto(reverse("agent_context", args=["ada"]))
    page.get_by_label("Input").fill(EXPORT)
    expect(page.get_by_role("region", name="Text of the prompt")).to_contain_text("full disk")
    page.get_by_role("button", name="Left out").click()
    considered = page.locator("#candidates")
    expect(considered.locator("tbody tr:not(.group)")).to_have_count(12)
    considered.get_by_label("Show").select_option("all")
    expect(considered.locator("tbody tr:not(.group)").first).to_contain_text("included")
    considered.get_by_role("button", name="Page 2").click()
    expect(considered).to_contain_text("13–")
    page.wait_for_url("**page=2*")
    considered.get_by_label("Show").select_option("superseded")
    page.wait_for_url("**verdict=superseded*")
    row = considered.locator("tbody tr:not(.group)")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("What would include it: A date before")
    page.reload()
    expect(row).to_have_count(1)
    considered.get_by_label("Show").select_option("left_out")
    expect(row).to_have_count(12)
    considered.get_by_label("Order").select_option("recent")
    page.wait_for_url("**sort=recent*")
    considered.get_by_label("Show").select_option("superseded")
    expect(row).to_have_count(1)
    row.locator("summary").click()
    considered.get_by_role("link", name="Open its replacement").click()
    page.wait_for_url(f"**/facts/{new.pk}/?back=*")
    run = make_run(ada, actor)
    page.goto(reverse("agent_context_run", args=["ada", run.pk]))
    page.get_by_role("link", name="Left out").click()
    page.wait_for_url("**tab=left*")
    page.wait_for_load_state("networkidle")
    considered.get_by_label("Show").select_option("included")
    page.wait_for_url("**verdict=included*")
    expect(considered.locator("tbody tr:not(.group)").first).to_contain_text("included")


def test_inspector_compares_with_today_and_as_of_a_date(
    ada: Agent, actor: Principal, system: Principal, charlie: User, log_in: Callable[..., Page]
) -> None:
    run = make_run(ada, actor)
    make_fact(ada, REPLICA, system)
    page = log_in(charlie)
    page.goto(reverse("agent_context_runs", args=["ada"]))
    page.get_by_role("link", name=EXPORT).click()
    page.get_by_role("link", name="Run again now").click()
    expect(page.get_by_role("row").filter(has_text=REPLICA)).to_contain_text("Added")
    expect(page.locator(".diff")).to_contain_text(REPLICA)
    page.goto(reverse("agent_context", args=["ada"]) + f"?run={run.pk}&tab=prompt")
    prompt = page.get_by_role("region", name="Text of the prompt")
    expect(prompt).to_contain_text(REPLICA)
    press_key(page, "T")
    page.get_by_label("As of").fill("2020-01-01T00:00")
    expect(page.locator("#result")).to_contain_text("Reconstructed from the memories")
    expect(prompt).not_to_contain_text(REPLICA)


def test_changes_that_made_a_difference_are_found_step_by_step(
    ada: Agent,
    actor: Principal,
    system: Principal,
    charlie: User,
    log_in: Callable[..., Page],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compare_runs, "STEP_SECONDS", 0)
    run = make_run(ada, actor)
    page = log_in(charlie, width=390, height=844)
    page.goto(reverse("agent_context_run", args=["ada", run.pk]))
    make_fact(ada, REPLICA, system)
    page.get_by_text("Something is wrong").click()
    page.get_by_role("link", name="Find the change behind it").click()
    page.wait_for_url("**/bisect/*")  # its scripts have run then: without them the form brings everything at once
    button = page.get_by_role("button", name="Find the changes")
    held: list[Route] = []
    page.route(lambda url: "search=" in url, lambda route: held.append(route))
    with page.expect_request(lambda request: "search=" in request.url):
        button.click()
    expect(page.get_by_text("looking closer")).to_have_count(1)
    page.get_by_role("button", name="Stop").click()
    held[0].continue_()
    page.wait_for_load_state("networkidle")
    expect(page.locator(".bisect-steps > *")).to_have_count(1)
    page.unroute_all(behavior="ignoreErrors")
    button.click()
    expect(page.get_by_text("prompts were rebuilt")).to_be_visible()
    expect(page.locator(".bisect-difference").first).to_contain_text(REPLICA)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_failed_prompt_is_traced_to_its_wrong_memory_and_mended_on_a_phone_in_four_taps(
    ledger: Fact, ada: Agent, actor: Principal, bob: User, log_in: Callable[..., Page]
) -> None:
    run = make_run(ada, actor)
    context_respond(run=run, response="1. The replica lagged, so the ledger export failed.", by=actor)
    context_outcome(run=run, outcome="failure", by=actor)
    page = log_in(bob, width=390, height=844)
    page.goto("/")
    page.get_by_role("link", name=EXPORT).click()
    page.get_by_text("Something is wrong").click()
    page.get_by_role("link", name="Memory 1 is wrong").click()
    page.get_by_role("button", name="Mark as wrong").click()
    expect(page.get_by_text("No prompt includes this fact from now on.")).to_be_visible()
    assert Fact.objects.get(pk=ledger.pk).invalidated_at


def test_mark_of_an_answer_shows_its_words_in_the_memory(
    ledger: Fact, ada: Agent, actor: Principal, bob: User, log_in: Callable[..., Page]
) -> None:
    run = make_run(ada, actor)
    context_respond(run=run, response="It broke: the replica lagged.", by=actor)
    page = log_in(bob)
    page.goto(run.get_absolute_url())
    cited = "[...(CSS.highlights.get('cited') ?? [])].map(String)"
    assert page.evaluate(cited) == []
    page.locator("mark[data-sources]").first.hover()
    assert page.evaluate(cited) == ["replica lagged"]
    page.get_by_role("heading", level=1).hover()
    assert page.evaluate(cited) == []


def test_impact_on_the_review_page(ada: Agent, actor: Principal, charlie: User, log_in: Callable[..., Page]) -> None:
    for text in ("hello", EXPORT):
        make_run(ada, actor, text)
    proposal = identity_propose(agent=ada, section="values", content="Truth first.", by=actor).proposal
    page = log_in(charlie)
    page.goto(reverse("proposal", args=[proposal.pk]))
    told = re.compile(r"all 2 prompts of the last 7 days\s+change: each gets \d+ tokens longer, with the same memories")
    expect(page.locator(".item-why")).to_contain_text(told)
    press_key(page, "b")
    expect(page.locator(".blast")).to_contain_text("All 2 prompts of the last 7 days would change")
    page.locator(".blast").get_by_role("link", name="Difference").first.click()
    expect(page.locator(".diff")).to_contain_text("Truth first.")
    assert ContextRun.objects.count() == 2


def test_impact_where_a_fact_or_a_censor_is_changed(
    ledger: Fact, ada: Agent, actor: Principal, system: Principal, charlie: User, log_in: Callable[..., Page]
) -> None:
    for text in ("hello", EXPORT):
        make_run(ada, actor, text)
    censor = censor_create(agent=ada, pattern="coffee", severity="block", by=system)
    page = log_in(charlie)
    page.goto(reverse("agent_fact_change", args=["ada", ledger.pk, "supersede"]))
    page.get_by_label("New fact").fill("The ledger export failed because the disk was full.")
    page.get_by_role("button", name="Replay the last requests").click()
    expect(page.locator(".blast")).to_contain_text("1 of the 2 prompts of the last 7 days would change")
    expect(page.locator(".blast")).to_contain_text("in place of")
    page.get_by_label("New fact").fill(REPLICA)
    page.goto(reverse("agent_censor_edit", args=["ada", censor.pk]))
    page.get_by_label("In force").uncheck()
    expect(page.locator(".blast")).to_contain_text("Without the censor")
    expect(page.locator(".blast")).to_contain_text("All 2 prompts of the last 7 days would change")
    page.goto(reverse("agent_censor_add", args=["ada"]))
    page.get_by_label("Pattern or meaning").fill("wine")
    expect(page.locator(".blast")).to_contain_text("All 2 prompts of the last 7 days would change")
    assert (Fact.objects.get(pk=ledger.pk).active, Censor.objects.count()) == (True, 1)


def test_impact_of_each_resolution_of_a_review(
    ada: Agent, actor: Principal, system: Principal, bob: User, log_in: Callable[..., Page]
) -> None:
    make_fact(ada, "The nightly job's twin is the archive of Graz.", system, subject="nightly job")
    text = "The nightly job's twin is the archive of Linz."
    asked = fact_learn(
        agent=ada, content=text, subject="nightly job", category="technical", importance=0.8, by=system
    ).review
    asked = pair_review(asked).pk
    make_run(ada, actor, "Does the nightly job touch the archive?")
    page = log_in(bob)
    page.goto(reverse("memory_review_detail", args=[asked]))
    page.get_by_role("radio", name="New replaces old").check()
    expect(page.locator(".blast")).to_contain_text("The only prompt of the last 7 days would change")
    page.get_by_text("Merge into one text").click()
    page.get_by_label("Merged text").fill("The nightly job's twins are the archives of Graz and Linz.")
    page.get_by_role("button", name="Preview the merged text").click()
    expect(page.locator(".blast")).to_contain_text("The resolution “Merged”")
    expect(page.locator(".blast")).to_contain_text("Graz and Linz")
    assert MemoryReview.objects.get(pk=asked).status == "pending"


def test_impact_of_a_category_where_it_is_changed(
    ledger: Fact, ada: Agent, actor: Principal, charlie: User, log_in: Callable[..., Page]
) -> None:
    for text in ("hello", EXPORT):
        make_run(ada, actor, text)
    page = log_in(charlie)
    page.goto(reverse("agent_fact_change", args=["ada", ledger.pk, "edit"]))
    page.get_by_label("Category").fill("rule")
    expect(page.locator(".blast")).to_contain_text("All 2 prompts of the last 7 days would change")
    expect(page.locator(".blast")).to_contain_text("so it is always included from then on")
    page.get_by_label("Category").fill("No Word")
    expect(page.locator(".blast-body .notice")).to_contain_text("category")
    page.get_by_label("Category").fill("preference")
    expect(page.locator(".blast")).to_contain_text("moved from technical to preference")
    page.locator(".blast").get_by_role("link", name="Difference").first.click()
    expect(page.locator(".diff")).to_contain_text(REPLICA)
    assert Fact.objects.get(pk=ledger.pk).category == "technical"


def test_impact_of_a_selection_is_one_replay(
    ada: Agent, actor: Principal, system: Principal, bob: User, log_in: Callable[..., Page]
) -> None:
    make_fact(ada, "The nightly job's twin is the archive of Graz.", system, subject="nightly job")
    make_fact(ada, "The nightly job's twin is the archive of Linz.", system, subject="nightly job")
    pair_review(MemoryReview.objects.pending().get().pk)
    for text in ("hello", "Does the nightly job touch the archive?"):
        make_run(ada, actor, text)
    for section, text in (("values", "Truth first."), ("protocols", "Check twice.")):
        identity_propose(agent=ada, section=section, content=text, by=actor, wait=True)
    page = log_in(bob)
    page.goto(reverse("review"))
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Impact").click()
    expect(page.locator(".blast")).to_contain_text("2 proposals approved together")
    expect(page.locator(".blast")).to_contain_text("All 2 prompts of the last 7 days would change")
    page.locator(".blast").get_by_role("link", name="Difference").first.click()
    expect(page.locator(".diff")).to_contain_text("Check twice.")
    expect(page.locator(".diff")).to_contain_text("Truth first.")
    page.goto(reverse("memory_review"))
    page.get_by_label("Select all on this page").check()
    page.locator("[data-bulkbar] summary", has_text="Impact").click()
    page.get_by_role("button", name="Preview “New replaces old”").click()
    expect(page.locator(".blast")).to_contain_text("1 of the 2 prompts of the last 7 days would change")
    assert MemoryReview.objects.get().status == "pending"


@pytest.fixture
def considered(ledger: Fact, ada: Agent, system: Principal, charlie: User, log_in: Callable[..., Page]) -> Locator:
    """The candidates of a preview whose page is open."""
    make_fact(ada, "The ledger export ran at noon.", system, importance=0.1)
    page = log_in(charlie)
    page.goto(reverse("agent_context", args=["ada"]) + "?input=Why+did+the+ledger+export+fail%3F&tab=left")
    return page.locator("#candidates")


def hold_answers(page: Page) -> list[Route]:
    """Keeps requests of the inspector waiting; each goes on when the test says so."""
    held: list[Route] = []
    page.route(lambda url: url.endswith("/context/"), lambda route: held.append(route))
    return held


@contextmanager
def asking(page: Page) -> Iterator[None]:
    """What is done inside asks for a preview, which is on its way, or held, afterwards."""
    with page.expect_request(lambda request: request.method == "POST"):
        yield
    page.evaluate("0")


def test_inspector_choices_during_a_request_are_both_kept(considered: Locator) -> None:
    page = considered.page
    held = hold_answers(page)
    with asking(page):
        considered.get_by_label("Show").select_option("low_importance")
    page.unroute_all(behavior="ignoreErrors")
    considered.get_by_role("button", name="Relevance").click()
    page.wait_for_url("**sort=relevance*")
    assert "verdict=low_importance" in page.url
    assert held
    expect(considered.locator("tbody tr:not(.group)")).to_have_count(1)


def test_inspector_order_chosen_during_a_request_is_kept(considered: Locator) -> None:
    page = considered.page
    held = hold_answers(page)
    with asking(page):
        page.get_by_label("Input").fill("Why did the ledger export fail again?")
    with asking(page):
        considered.get_by_label("Order").select_option("recent")
    held[0].continue_()
    held[1].continue_()
    page.wait_for_url("**sort=recent*")
    expect(considered.get_by_label("Order")).to_have_value("recent")


def test_inspector_button_stays_under_the_pointer_until_released(considered: Locator) -> None:
    page = considered.page
    held = hold_answers(page)
    with asking(page):
        page.get_by_label("Input").fill("Why did the ledger export fail again?")
    considered.get_by_role("button", name="Relevance").hover()
    page.mouse.down()
    held[0].continue_()
    expect(page.locator("form.htmx-request")).to_have_count(0)
    page.unroute_all(behavior="ignoreErrors")
    page.mouse.up()
    page.wait_for_url("**sort=relevance*")
    assert "again" in page.url
    # Pressed on no button, what was held back is shown after the release.
    held = hold_answers(page)
    with asking(page):
        page.get_by_label("Input").fill("Why did the ledger export fail at noon?")
    considered.get_by_role("columnheader").first.hover()
    page.mouse.down()
    held[0].continue_()
    expect(page.locator("form.htmx-request")).to_have_count(0)
    page.unroute_all(behavior="ignoreErrors")
    page.mouse.up()
    page.wait_for_url("**at+noon*")


def test_inspector_keyboard_focus_stays_and_the_answer_is_announced(considered: Locator) -> None:
    page = considered.page
    button = considered.get_by_role("button", name="Relevance")
    button.focus()
    press_key(page, "Enter")
    page.wait_for_url("**sort=relevance*")
    expect(button).to_be_focused()
    expect(page.locator("#inspector-status")).to_contain_text("memories considered")


def test_menu_of_a_memory_opens_within_the_window_of_a_phone(
    ledger: Fact, actor: Principal, bob: User, log_in: Callable[..., Page]
) -> None:
    page = log_in(bob, width=390, height=560)
    page.goto(reverse("agent_context_run", args=["ada", make_run(ledger.agent, actor).pk]))
    page.get_by_text("other parts").click()
    expect(page.get_by_role("row", name="Identity")).to_be_visible()
    menu = page.locator(".memories .menu").first
    for edge, upward in (("end", True), ("start", False)):
        menu.evaluate("(menu, block) => menu.scrollIntoView({ block })", edge)
        menu.locator("summary").click()
        last = menu.get_by_role("link", name="Replace with …")
        expect(last).to_be_in_viewport(ratio=1)
        opened, summary = menu.locator(".menu-items").bounding_box(), menu.locator("summary").bounding_box()
        assert opened is not None
        assert summary is not None
        assert opened["y"] >= 0
        assert (opened["y"] < summary["y"]) is upward
        page.keyboard.press("Escape")
        expect(last).to_be_hidden()


def test_inspector_answers_why_not_this_memory_while_one_types(
    ledger: Fact, bob: User, log_in: Callable[..., Page]
) -> None:
    page = log_in(bob)
    page.goto(f"{reverse('agent_context', args=['ada'])}?input={EXPORT}")
    asked = page.get_by_label("Why not this memory?")
    asked.press_sequentially("replica", delay=120)
    expect(page.locator(".is-asked")).to_contain_text("In the prompt, under Relevant Facts.")
    expect(asked).to_have_value("replica")
    expect(asked).to_be_focused()


def test_expectations_count_what_one_click_adds(
    ada: Agent, ledger: Fact, bob: User, system: Principal, log_in: Callable[..., Page]
) -> None:
    by = Principal.of_user(bob)
    demand = {"requirement": "present", "target": "text", "text": "replica"}
    expectation_create(agent=ada, by=by, request=request_of(EXPORT), **demand)
    expectations_verify(agent=ada, by=by)
    run = make_run(ada, by, "Why was the export late?")
    context_respond(run=run, response=REPLICA, by=by)
    context_outcome(run=run, outcome="failure", by=by)
    new = make_fact(ada, "The ledger export failed because the disk was full.", system, subject="Ledger")
    fact_supersede(old=ledger, new=new, by=by)
    page = log_in(bob)
    page.goto(reverse("agent_expectations", args=["ada"]))
    state = page.locator("#state")
    expect(state).to_contain_text("1 of 1")
    page.get_by_role("button", name="Add", exact=False).first.click()
    expect(state).to_contain_text("of 2")
    page.get_by_role("button", name="Undo").click()
    expect(state).to_contain_text("of 1")
