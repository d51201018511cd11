"""The settings of prompts as a person changes them: what saves them, and the way back to a default."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from identity.models import Agent
from identity.principal import Principal
from tests.factories import make_run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("width", [1440, 390])
def test_settings_are_saved_once_something_differs_and_go_back_to_the_default(
    ada: Agent, charlie: User, log_in: Callable[..., Page], width: int
) -> None:
    page = log_in(charlie, width=width, height=844)
    page.goto(reverse("agent_context_settings", args=["ada"]))
    save, budget = page.get_by_role("button", name=re.compile("^Save ")), page.get_by_label("Identity", exact=True)
    reset = page.get_by_role("button", name="Reset: Identity")

    def nothing_to_save() -> None:
        """On a phone the room is for the settings."""
        expect(save.and_(page.locator(":enabled"))).to_be_hidden()
        expect(page.get_by_text("A change takes effect when you save it.")).to_be_visible(visible=width > 390)

    nothing_to_save()
    # Defaults are no less readable than what a person has set, which is bold.
    ink = "(field, part) => getComputedStyle(field, part).color"
    assert budget.evaluate(ink, "::placeholder") == page.locator("select").first.evaluate(ink)
    assert budget.evaluate(ink, "::placeholder") == page.locator("body").evaluate(ink)
    expect(reset).to_be_hidden()
    expect(budget).to_have_accessible_description(re.compile("^The default."))
    budget.fill("400")
    expect(budget).to_have_css("font-weight", "600")
    expect(budget).to_have_accessible_description(re.compile("^Set by a person."))
    expect(save).to_be_in_viewport()
    expect(reset.locator("..")).to_contain_text("default: 300")
    reset.click()
    expect(budget).to_have_value("")
    nothing_to_save()
    budget.fill("500")
    page.get_by_role("spinbutton", name="Highest error rate").fill("7")
    page.get_by_label("Why").fill("Long values.")
    expect(save).to_have_text("Save 2 changes")
    expect(page.locator(".save-bar")).to_contain_text("Identity: 300 → 500; Highest error rate: 5 → 7")
    expect(page.get_by_text("all settings are at their defaults")).to_be_hidden()
    save.click()
    expect(page.get_by_text("The settings were saved.")).to_be_visible()
    nothing_to_save()
    ada.refresh_from_db()
    assert (ada.config["budgets"], ada.config["autonomy"]["max_error"]) == ({"identity": 500}, 0.07)
    expect(page.get_by_role("spinbutton", name="Highest error rate")).to_have_value("7")
    reset.click()
    save.click()
    expect(page.locator(".timeline")).to_contain_text("Long values.")
    ada.refresh_from_db()
    assert "budgets" not in ada.config
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    budget.fill("600")
    page.get_by_role("link", name="Discard").click()
    expect(budget).to_have_value("")
    assert asked == []


def test_a_smaller_budget_says_which_prompts_had_more(
    ada: Agent, bob: User, charlie: User, log_in: Callable[..., Page]
) -> None:
    run = make_run(ada, Principal.of_user(bob), "Hello?")
    tokens = next(section["tokens"] for section in run.sections if section["key"] == "identity")
    page = log_in(charlie)
    page.goto(reverse("agent_context_settings", args=["ada"]))
    budget, bar = page.get_by_label("Identity", exact=True), page.locator(".save-bar")
    budget.fill(str(tokens - 1))
    expect(bar).to_contain_text(f"→ {tokens - 1} (1 of the last prompts had more, up to {tokens} tokens)")
    budget.fill(str(tokens))
    expect(bar).not_to_contain_text("had more")
    page.get_by_role("button", name="Try these budgets").click()
    expect(page.locator("#budgets-impact")).to_contain_text("The budgets as typed in the settings")
    budget.fill(str(tokens + 1))
    expect(page.locator("#budgets-impact")).to_be_empty()


def test_general_settings_are_saved_once_something_differs(
    ada: Agent, charlie: User, log_in: Callable[..., Page]
) -> None:
    page = log_in(charlie)
    page.goto(reverse("agent_settings", args=["ada"]))
    save = page.get_by_role("button", name=re.compile("^Save "))
    expect(save).to_be_disabled()
    page.get_by_label("Name").fill("Ada Two")
    expect(save).to_have_text("Save 1 change")
    save.click()
    expect(page.get_by_text("The settings were saved.")).to_be_visible()
    ada.refresh_from_db()
    assert ada.name == "Ada Two"
