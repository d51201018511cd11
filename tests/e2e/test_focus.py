"""Where the keyboard is after what people do in a page, and the way on from what was refused."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.models import Agent, ItemAssignment, ItemComment
from identity.principal import Principal
from memory.services.facts import fact_learn
from tests.e2e.conftest import press_key
from tests.factories import make_proposal

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LogIn = Callable[..., Page]
FOCUSED = "#item-panel:focus-within"


def test_comment_and_assignment_keep_the_focus_and_what_was_typed(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    proposal = make_proposal(ada, actor)
    page = log_in(bob)
    page.goto(proposal.get_absolute_url())
    page.locator("#comment").fill("For the author.")
    press_key(page, "Escape")
    press_key(page, "C")
    page.keyboard.type("Is this so?")
    press_key(page, "Control+Enter")
    expect(page.locator(".item-comments")).to_contain_text("Is this so?")
    expect(page.locator("#item-comment")).to_be_focused()
    expect(page.locator("#item-comment")).to_have_value("")
    expect(page.locator("#comment")).to_have_value("For the author.")
    assert ItemComment.objects.get().text == "Is this so?"
    press_key(page, "Escape")
    press_key(page, "A")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Assigned to bob").first).to_be_visible()
    expect(page.locator(FOCUSED)).to_have_count(1)
    assert ItemAssignment.objects.get().person == bob
    page.get_by_label("Comment for colleagues").fill("Again.")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.locator(".item-comments li")).to_have_count(2)
    expect(page.locator(FOCUSED)).to_have_count(1)


def test_escape_leaves_a_field_and_send_chooses_no_decision(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    proposal = make_proposal(ada, actor)
    page = log_in(bob)
    page.goto(proposal.get_absolute_url())
    press_key(page, "c")
    page.keyboard.type("Not yet, ar")
    press_key(page, "Control+Enter")
    expect(page.locator("#told")).to_contain_text("Leave the field with Escape")
    proposal.refresh_from_db()
    assert proposal.status == "pending"
    press_key(page, "Escape")
    expect(page.locator("#main")).to_be_focused()
    press_key(page, "r")
    expect(page.locator(".review-undo")).to_contain_text("Rejected Values of Ada")
    proposal.refresh_from_db()
    assert proposal.comment == "Not yet, ar"


def test_key_of_a_row_is_shown_on_the_selected_one(log_in: LogIn, ada: Agent, bob: User) -> None:
    page = log_in(bob)
    page.goto("/agents/ada/identity/")
    keys = page.locator("main kbd").filter(has_text="e", visible=True)
    expect(keys).to_have_count(0)
    press_key(page, "j")
    expect(keys).to_have_count(1)
    press_key(page, "e")
    page.wait_for_url("**/propose/")


def test_refused_text_is_put_back(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    for subject in ("harbour", "lighthouse"):
        fact_learn(agent=ada, content=f"The {subject} is old.", subject=subject, by=actor)
    page = log_in(bob)
    page.goto("/agents/ada/subjects/harbour/")
    press_key(page, "n")
    page.keyboard.type("lighthouse")
    press_key(page, "Enter")
    expect(page.locator("#messages .notice-error")).to_be_visible()
    expect(page.get_by_text("Draft restored")).to_be_visible()
    expect(page.get_by_label("Another name")).to_have_value("lighthouse")


def test_refused_page_fits_a_phone_and_restores_the_text(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    fact = fact_learn(agent=ada, content="The harbour is old.", subject="harbour", by=actor).fact
    page = log_in(bob, width=390, height=844)
    page.goto(f"/agents/ada/facts/{fact.pk}/?q=harbour")
    # A form of the page that is sent where nothing is.
    page.evaluate(
        """() => {
            const form = document.createElement("form");
            form.id = "gone";
            form.method = "post";
            form.setAttribute("action", `/inbox/memoryreview/${crypto.randomUUID?.() ?? "0"}/undo/`);
            form.append(document.querySelector("[name=csrfmiddlewaretoken]").cloneNode());
            form.insertAdjacentHTML("beforeend", "<input name=note aria-label=Note><button>Send it</button>");
            document.querySelector("main").prepend(form);
        }"""
    )
    page.get_by_label("Note").fill("Typed.")
    page.get_by_role("button", name="Send it").click()
    expect(page.get_by_text("What you typed is kept")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("link", name="Open the page as it is now").click()
    page.wait_for_url("**/?q=harbour")
