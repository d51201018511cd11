"""Decisions in a real browser are about what was seen, and lose nothing that was typed."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, Route, expect

from identity.models import Agent, ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.proposals import proposal_reject, proposal_undo
from memory.models import MemoryReview
from tests.e2e.conftest import press_key
from tests.factories import make_proposal, make_review

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LogIn = Callable[..., Page]
TWICE = """([key, wait]) => new Promise((resolve) => {
    const pressed = () => new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true});
    const press = () => document.body.dispatchEvent(pressed());
    press();
    setTimeout(() => { press(); resolve(); }, wait);
})"""
WHEN_BACK = """([heading, key]) => {
    const back = setInterval(() => {
        if (document.querySelector("h1").textContent.trim() !== heading) return;
        clearInterval(back);
        document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
    }, 10);
}"""
"""Presses a key as soon as an item is there again."""
NO_ANSWER = "XMLHttpRequest.prototype.send = () => {}"
"""What htmx asks for from now on does not arrive."""
LONG = "\n".join(f"Line {place} of a long manual." for place in range(200))


def status(row: ChangeProposal | MemoryReview) -> str:
    row.refresh_from_db()
    return row.status


def opened(page: Page, first: ChangeProposal | MemoryReview, following: ChangeProposal | MemoryReview) -> None:
    """Opens an item, until the one that follows it has been fetched ahead."""
    with page.expect_response(lambda response: f"{following.pk}" in response.url):
        page.goto(first.get_absolute_url())
    page.wait_for_load_state("networkidle")


def scroll_to_text(page: Page) -> None:
    """Leaves the field and scrolls up; the text is marked again once it has been in view for long enough."""
    page.evaluate("""() => {
        document.activeElement.blur();
        document.querySelector("[data-read]").removeAttribute("data-seen");
        window.scrollTo(0, 0);
    }""")


def told(page: Page, words: str) -> None:
    expect(page.locator("#told").get_by_text(words)).to_be_visible()


def test_second_key_decides_nothing_that_was_not_seen(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    first, second = make_proposal(ada, actor), make_proposal(ada, actor, "boundaries", "Never lie.")
    page = log_in(bob)
    opened(page, first, second)
    page.locator("[data-read][data-seen]").wait_for(state="attached")
    page.evaluate(TWICE, ["a", 180])
    told(page, "in view for less than half a second")
    expect(page.get_by_role("heading", level=1)).to_have_text("Boundaries of Ada")
    expect(page.locator(".review-undo")).to_contain_text("Approved Values of Ada")
    assert (status(first), status(second)) == ("approved", "pending")
    press_key(page, "a")
    expect(page.locator(".review-undo")).to_contain_text("Approved Boundaries of Ada")
    assert status(second) == "approved"


def test_second_key_resolves_no_review_that_was_not_seen(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    texts = [f"The {thing} {{}} stops at night." for thing in ("lift", "press")]
    first, second = (make_review(ada, actor, one.format("never"), one.format("sometimes"), one[:8]) for one in texts)
    page = log_in(bob)
    opened(page, first, second)
    page.locator("[data-read][data-seen]").wait_for(state="attached")
    page.evaluate(TWICE, ["5", 180])
    told(page, "in view for less than half a second")
    expect(page.locator(".review-undo")).to_be_visible()
    assert (status(first), status(second)) == ("resolved", "pending")
    # What was pressed too early stays chosen.
    expect(page.get_by_role("radio", name="Both are true")).to_be_checked()
    press_key(page, "Enter")
    expect(page.get_by_role("heading", name="Nothing is pending")).to_be_visible()
    assert status(second) == "resolved"


def test_double_click_decides_about_one_item(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    first, second = make_proposal(ada, actor), make_proposal(ada, actor, "boundaries", "Never lie.")
    page = log_in(bob)
    opened(page, first, second)
    page.get_by_role("button", name="Approve").dblclick()
    expect(page.locator(".review-undo")).to_contain_text("Approved Values of Ada")
    assert (status(first), status(second)) == ("approved", "pending")


def test_key_decides_nothing_about_an_item_that_a_failure_brings_back(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User, complaints: list[str]
) -> None:
    first, second = make_proposal(ada, actor), make_proposal(ada, actor, "boundaries", "Never lie.")
    page = log_in(bob)
    opened(page, first, second)
    held: list[Route] = []
    page.route(f"**{first.get_absolute_url()}*", lambda route: held.append(route), times=1)
    with page.expect_request(lambda request: request.method == "POST"):
        press_key(page, "a")
    expect(page.get_by_role("heading", level=1)).to_have_text("Boundaries of Ada")
    page.evaluate(WHEN_BACK, ["Values of Ada", "r"])
    held[0].abort()
    told(page, "in view for less than half a second")
    expect(page.get_by_role("heading", level=1)).to_have_text("Values of Ada")
    assert (status(first), status(second)) == ("pending", "pending")
    complaints[:] = [one for one in complaints if "net::ERR_FAILED" not in one]


def test_key_decides_while_the_preview_of_an_edit_is_loading(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    proposal = make_proposal(ada, actor)
    page = log_in(bob)
    page.goto(proposal.get_absolute_url())
    press_key(page, "e")
    page.evaluate(NO_ANSWER)
    page.get_by_label("Text to approve").fill("Truth first, kindly.")
    page.locator("#working.htmx-request").wait_for(state="attached")
    scroll_to_text(page)
    press_key(page, "a")
    expect(page.locator(".review-undo")).to_contain_text("Approved Values of Ada")
    assert IdentityVersion.objects.current().get(section="values").content == "Truth first, kindly."


def test_key_of_what_is_being_replaced_says_so(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    proposal = make_proposal(ada, actor)
    page = log_in(bob)
    page.goto(proposal.get_absolute_url())
    page.evaluate(NO_ANSWER)
    press_key(page, "v")
    press_key(page, "v")
    told(page, "still loading")


def test_high_risk_is_decided_by_key_once_its_end_was_shown(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    proposal = make_proposal(ada, actor, "values", LONG)
    page = log_in(bob)
    page.goto(proposal.get_absolute_url())
    press_key(page, "a")
    told(page, "Scroll to the end of its text")
    assert status(proposal) == "pending"
    page.evaluate("document.querySelector('[data-read]').scrollIntoView({block: 'end'})")
    page.evaluate("window.scrollBy(0, 400)")
    page.wait_for_timeout(200)
    press_key(page, "a")
    expect(page.locator(".review-undo")).to_contain_text("Approved Values of Ada")


def test_text_in_a_hidden_page_is_not_seen(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    proposal = make_proposal(ada, actor)
    page = log_in(bob)
    page.add_init_script("Object.defineProperty(document, 'visibilityState', {get: () => window.shown ?? 'hidden'})")
    page.goto(proposal.get_absolute_url())
    page.wait_for_timeout(700)
    page.keyboard.press("a")
    told(page, "The text of this item is not in view")
    page.evaluate("window.shown = 'visible'")
    press_key(page, "a")
    expect(page.locator(".review-undo")).to_contain_text("Approved Values of Ada")


def test_list_says_why_a_key_decides_nothing(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    high, low = make_proposal(ada, actor), make_proposal(ada, actor, "protocols", "Ask first.")
    page = log_in(bob)
    for address in ("/review/", "/inbox/"):
        page.goto(address)
        press_key(page, "a")
        told(page, "No item is selected")
        press_key(page, "j")
        press_key(page, "a")
        told(page, "cannot be decided in the list")
        press_key(page, "j")
        page.evaluate("document.querySelector('.is-selected details').open = false")
        page.keyboard.press("a")
        told(page, "is not in view")
    assert {status(high), status(low)} == {"pending"}


def test_edit_is_approved_by_the_one_button_and_its_key(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    proposal = make_proposal(ada, actor)
    page = log_in(bob)
    page.goto(proposal.get_absolute_url())
    expect(page.get_by_role("button", name="Approve my edit")).to_have_count(0)
    press_key(page, "e")
    field = page.get_by_label("Text to approve")
    field.fill("Truth first, kindly.")
    expect(page.get_by_role("button", name="Approve")).to_have_text("Approve my edit a")
    page.get_by_role("button", name="Start again").click()
    expect(page.get_by_role("button", name="Approve")).to_have_text("Approve a")
    field.fill("Truth first, kindly.")
    page.get_by_role("heading", level=1).click()
    scroll_to_text(page)
    press_key(page, "a")
    expect(page.locator(".review-undo")).to_contain_text("Approved Values of Ada")
    assert IdentityVersion.objects.current().get(section="values").content == "Truth first, kindly."


def test_decision_that_would_lose_typed_text_asks_once(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    first, second = make_proposal(ada, actor), make_proposal(ada, actor, "boundaries", "Never lie.")
    page = log_in(bob)
    page.goto(first.get_absolute_url())
    press_key(page, "e")
    page.get_by_label("Text to approve").fill("Truth first, kindly.")
    page.get_by_role("button", name="Reject").click()
    told(page, "It would lose your edit")
    expect(page.get_by_label("Text to approve")).to_have_value("Truth first, kindly.")
    assert status(first) == "pending"
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".review-undo")).to_contain_text("Rejected Values of Ada")
    page.goto(second.get_absolute_url())
    press_key(page, "C")
    page.get_by_label("Comment for colleagues").fill("Is this so?")
    page.get_by_role("button", name="Approve").click()
    told(page, "It would lose “Comment for colleagues”")
    assert status(second) == "pending"


def test_last_five_decisions_are_undone_one_by_one(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User, charlie: User
) -> None:
    sections = {"values": "A.", "boundaries": "B.", "character": "C.", "protocols": "D.", "preferences": "E."}
    made = [make_proposal(ada, actor, section, text) for section, text in sections.items()]
    make_review(ada, actor, "The lift never stops at night.", "The lift sometimes stops at night.")
    page = log_in(bob)
    page.goto("/inbox/")
    page.get_by_role("link", name="Start reviewing").click()
    for number in range(6):
        heading = page.get_by_role("heading", level=1)
        words = heading.inner_text()
        press_key(page, "5" if "Contradiction" in words else "r")
        if number < 5:
            expect(heading).not_to_have_text(words)
    expect(page.get_by_role("heading", name="Nothing is pending")).to_be_visible()
    expect(page.get_by_text("Latest decisions")).to_be_visible()
    press_key(page, "U")
    entries = page.locator(".undo-rest li")
    expect(entries).to_have_count(5)
    expect(entries.get_by_role("button").first).to_be_focused()
    expect(entries.locator("kbd")).to_have_text(["1", "2", "3", "4", "5"])
    expect(entries.first).to_contain_text("Rejected Preferences of Ada")
    # On an item these keys give answers, so they undo only what has the focus.
    page.locator("#main").focus()
    expect(entries.locator("kbd").first).to_be_hidden()
    press_key(page, "3")
    expect(entries).to_have_count(5)
    values, boundaries = made[:2]
    proposal_undo(proposal=boundaries, by=Principal.of_user(charlie))
    proposal_reject(proposal=boundaries, by=Principal.of_user(charlie))
    page.get_by_role("button", name="Undo: Rejected Boundaries of Ada").click()
    expect(page.get_by_text("has been decided again since, by charlie")).to_be_visible()
    assert status(boundaries) == "rejected"
    press_key(page, "U")
    expect(page.get_by_role("button", name="Undo: Kept both:")).to_be_visible()
    number = page.get_by_role("button", name="Undo: Rejected Character of Ada").locator("kbd").inner_text()
    press_key(page, number)
    expect(page.get_by_text("The decision on Character of Ada was undone")).to_be_visible()
    assert (status(values), status(made[2])) == ("rejected", "pending")
    page.get_by_text("Latest decisions").click()
    expect(page.locator(".undo-rest li")).to_have_count(4)
    page.goto("/inbox/")
    press_key(page, "?")
    expect(page.locator("#keyhelp")).to_contain_text("Latest decisions, to undo one")
    page.get_by_role("button", name="Close").click()
    press_key(page, "U")
    expect(page.locator(".undo-rest kbd").nth(1)).to_have_text("1")
