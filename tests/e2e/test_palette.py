"""The command palette in a real browser: everything by keyboard."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.models import Agent
from identity.principal import Principal
from tests.e2e.conftest import assert_accessible, press_key
from tests.factories import make_fact, make_proposal

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LogIn = Callable[..., Page]


def opened(page: Page, address: str) -> None:
    page.goto(address)
    press_key(page, "Control+k")
    expect(page.locator("#palette")).to_be_visible()


def test_pages_agents_and_recent_places_by_keyboard(log_in: LogIn, ada: Agent, bob: User) -> None:
    page = log_in(bob)
    page.goto("/agents/ada/facts/")
    page.wait_for_load_state("load")
    opened(page, "/audit/")
    expect(page.locator("#palette")).to_contain_text("Where you were")
    expect(page.locator("#palette")).to_contain_text("Facts · Ada")
    assert_accessible(page)
    page.keyboard.type("background")
    press_key(page, "Enter")
    page.wait_for_url("**/lifecycle/")
    opened(page, "/audit/")
    page.keyboard.type("all agents")
    press_key(page, "Enter")
    page.wait_for_url("**/agents/")


def test_escape_closes_at_once_and_the_opening_key_keeps_the_focus_in_the_field(
    log_in: LogIn, ada: Agent, bob: User
) -> None:
    page = log_in(bob)
    opened(page, "/agents/ada/identity/values/")
    page.keyboard.type("voucher")
    press_key(page, "Escape")
    expect(page.locator("#palette")).to_be_hidden()
    press_key(page, "Control+k")
    page.locator("#palette-here a").first.focus()
    press_key(page, "Control+k")
    page.keyboard.type("e")
    expect(page.locator("#palette")).to_be_visible()
    expect(page.locator("#palette-input")).to_have_value("e")
    assert page.url.endswith("/identity/values/")


def test_memory_of_another_agent_is_found_and_opened(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    make_fact(ada, "The lighthouse lamp is lit by paraffin oil.", actor)
    page = log_in(bob)
    opened(page, "/")
    page.keyboard.type("paraffin")
    expect(page.locator("#palette-found")).to_contain_text("lit by paraffin")
    press_key(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_url("**/facts/**")


def test_action_of_the_page_is_pressed_from_the_palette(log_in: LogIn, ada: Agent, actor: Principal, bob: User) -> None:
    proposal = make_proposal(ada, actor, "values")
    page = log_in(bob)
    opened(page, f"/review/{proposal.pk}/")
    page.keyboard.type("comment")
    expect(page.locator("#palette-here")).to_contain_text("Comment on the decision")
    press_key(page, "Enter")
    expect(page.locator("#comment")).to_be_focused()
    page.keyboard.type("a rather early jump")
    expect(page.locator("#comment")).to_have_value("a rather early jump")


def test_palette_decides_about_no_row_that_is_not_selected(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    proposal = make_proposal(ada, actor, "protocols")
    page = log_in(bob)
    opened(page, "/review/")
    expect(page.locator("#palette-here")).not_to_contain_text("Reject")
    press_key(page, "Enter")
    page.wait_for_url(lambda address: not address.endswith("/review/"))
    assert type(proposal).objects.get(pk=proposal.pk).status == "pending"
    page.goto("/review/")
    press_key(page, "j")
    press_key(page, "Control+k")
    page.keyboard.type("approve the selected")
    press_key(page, "Enter")
    expect(page.locator(".review-undo")).to_contain_text("Approved Protocols of Ada")


def test_palette_fits_a_phone(log_in: LogIn, ada: Agent, bob: User) -> None:
    page = log_in(bob, width=390, height=700)
    page.goto("/agents/ada/identity/")
    page.get_by_role("button", name="Search or go to").click()
    expect(page.locator("#palette")).to_be_visible()
    box = page.locator("#palette").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert box["height"] <= 700
