"""What a person has changed in a form and not saved is not lost by a click on a link."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from identity.models import Agent
from identity.principal import Principal
from memory.policy.oversight import ConsentPolicy
from tests.e2e.conftest import assert_accessible
from tests.factories import make_proposal

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LogIn = Callable[..., Page]


def is_asked(page: Page) -> bool:
    """Whether the browser asks before it goes home; it then stays."""
    asked: list[str] = []
    page.once("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    page.get_by_role("link", name="Home").click()
    if not asked:
        page.wait_for_url("**/")
    return asked == ["beforeunload"]


def test_rules_that_are_not_saved_are_asked_about_and_say_what_is_chosen(
    log_in: LogIn, ada: Agent, charlie: User
) -> None:
    page = log_in(charlie)
    page.goto(reverse("agent_consent", args=["ada"]))
    page.get_by_role("button", name="Add a rule").click()
    expect(page.get_by_text("New memories wait for a person.")).to_be_visible()
    assert is_asked(page)
    page.get_by_role("button", name="Show the impact").click()
    impact = page.get_by_role("heading", name="Impact on the last prompts")
    expect(impact).to_be_visible()
    page.get_by_label("Decision").select_option("Use at once")
    expect(page.get_by_text("New memories are used at once.")).to_be_visible()
    expect(impact).to_be_hidden()
    assert_accessible(page)
    assert is_asked(page)
    page.get_by_role("button", name="Save rules").click()
    expect(page.get_by_text("The rules were saved.")).to_be_visible()
    ada.refresh_from_db()
    assert ConsentPolicy.of_config(ada.config).as_json() == [{"action": "use"}]
    assert not is_asked(page)


def test_a_choice_is_asked_about_and_what_loses_nothing_is_not(
    log_in: LogIn, ada: Agent, actor: Principal, charlie: User
) -> None:
    make_proposal(ada, actor, "values")
    page = log_in(charlie)
    page.goto(reverse("agent_new"))
    page.get_by_label("Kind").select_option(index=1)
    assert is_asked(page)
    page.once("dialog", lambda dialog: dialog.accept())
    page.goto("/inbox/")
    page.get_by_role("checkbox", name="Select all on this page").check()
    assert not is_asked(page)
    page.goto(reverse("agent_playground_compare", args=["ada"]))
    page.get_by_text("Compare other versions").click()
    page.get_by_label("After", exact=True).select_option("now")
    expect(page.get_by_text("Both sides are the same")).to_be_visible()
    assert not is_asked(page)
