"""One control shows an agent as of a moment of the past, from page to page."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.services.agents import agent_create
from identity.services.proposals import identity_propose
from memory.services.facts import fact_learn
from nousweb.lib import clock
from tests.e2e.conftest import assert_accessible, press_key
from tests.factories import SYSTEM, make_principal

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

BLUE, GREEN = "The logo is blue.", "The bridge is green."


def test_past_walks_from_page_to_page_and_back_to_now(log_in: Callable[..., Page], charlie: User) -> None:
    with clock.at(datetime(2026, 3, 1, tzinfo=UTC)):
        agent = agent_create(slug="eve", name="Eve", prompt="You are Eve, calm.", by=SYSTEM)
        fact_learn(agent=agent, content=BLUE, category="technical", by=make_principal(agent))
    identity_propose(agent=agent, section="character", content="You are Eve, loud.", by=SYSTEM)
    fact_learn(agent=agent, content=GREEN, category="technical", by=make_principal(agent, name="later"))
    page = log_in(charlie, width=390)
    page.goto("/agents/eve/facts/?q=is")
    expect(page.get_by_text(GREEN)).to_be_visible()
    press_key(page, "T")
    expect(page.get_by_label("As of")).to_be_focused()
    page.get_by_label("As of").fill("2026-03-02T08:30")
    banner = page.get_by_text("As of 2026-03-02 08:30 UTC: what Eve remembered then. Back to now")
    expect(banner).to_be_visible()
    assert page.url.endswith("/agents/eve/facts/?q=is&as_of=2026-03-02T08%3A30")
    expect(page.get_by_text(GREEN)).to_have_count(0)
    expect(page.get_by_role("link", name="Add fact")).to_have_count(0)
    assert_accessible(page)
    page.get_by_role("link", name=BLUE).click()
    expect(banner).to_be_visible()
    expect(page.get_by_role("link", name="Mark as wrong")).to_have_count(0)
    page.set_viewport_size({"width": 1440, "height": 900})
    rail, tabs = (page.get_by_role("navigation", name=name, exact=True) for name in ("Areas", "Pages"))
    page.get_by_role("navigation", name="Breadcrumb").get_by_role("link", name="Eve").click()
    expect(banner).to_be_visible()
    expect(page.locator(".identity-words").first).to_have_text("You are Eve, calm.")
    rail.get_by_role("link", name="Prompts").click()
    expect(banner).to_be_visible()
    tabs.get_by_role("link", name="Inspector").click()
    page.get_by_label("Input").fill("Which colour is the bridge, and which the logo?")
    expect(page.get_by_text("Historical context.")).to_be_visible()
    page.get_by_role("button", name="Prompt", exact=True).click()
    expect(page.get_by_role("region", name="Text of the prompt")).to_contain_text("You are Eve, calm.")
    page.wait_for_url("**input=Which*as_of=2026-03-02T08%3A30")
    page.get_by_role("navigation", name="Breadcrumb").get_by_role("link", name="Eve").click()
    rail.get_by_role("link", name="Settings").click()
    tabs.get_by_role("link", name="Tokens").click()
    expect(page.get_by_text("this page cannot tell of the past, and shows the present")).to_be_visible()
    rail.get_by_role("link", name="Memory").click()
    expect(banner).to_be_visible()
    # What is typed waits for Enter: the first digits of a year are a moment too.
    press_key(page, "T")
    page.keyboard.type("01012021")
    page.keyboard.press("Escape")
    press_key(page, "T")
    expect(page.get_by_label("As of")).to_have_value("2026-03-02T08:30")
    page.keyboard.type("01022020")
    expect(banner).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_text("As of 2020-01-02 08:30 UTC:")).to_be_visible()
    expect(page.get_by_text(BLUE)).to_have_count(0)
    press_key(page, "N")
    expect(page.get_by_text(GREEN)).to_be_visible()
    assert page.url.endswith("/agents/eve/facts/")
