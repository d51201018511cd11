"""Identity in a real browser: see the difference, propose, meet a stale base, compare, roll back."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.models import Agent, ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.proposals import identity_propose
from tests.e2e.conftest import OpenPage, assert_accessible, press_key
from tests.factories import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LogIn = Callable[..., Page]


def values_write(agent: Agent, by: User, *texts: str) -> None:
    for text in texts:
        identity_propose(agent=agent, section="values", content=text, by=Principal.of_user(by))


def current_text(agent: Agent, section: str = "values") -> str:
    return IdentityVersion.objects.current().get(agent=agent, section=section).content


def test_identity_edit_shows_the_difference_before_proposing(open_page: OpenPage, ada: Agent, bob: User) -> None:
    values_write(ada, bob, "Truth before speed.")
    page = open_page()
    page.goto("/login/?next=/agents/")
    page.get_by_label("Username").fill(bob.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/agents/")
    page.get_by_role("link", name="Ada").first.click()
    page.get_by_role("link", name="Propose change of Values").click()
    expect(page.get_by_text("No difference yet")).to_be_visible()
    page.get_by_label("Text", exact=True).press("Control+End")
    page.get_by_label("Text", exact=True).press_sequentially("\nSleep before noise.")
    expect(page.locator("#preview .diff-text.is-added")).to_contain_text("Sleep before noise.")
    assert ChangeProposal.objects.filter(status="pending").count() == 0
    page.get_by_label("Reason").fill("Nights were loud.")
    page.get_by_role("button", name="Propose for review").click()
    expect(page.get_by_text("Proposed, and not active yet.")).to_be_visible()
    expect(page.get_by_label("Pending for Values")).to_contain_text("Nights were loud.")
    assert current_text(ada) == "Truth before speed."


def test_identity_edit_on_a_stale_base_keeps_the_input(log_in: LogIn, ada: Agent, bob: User, charlie: User) -> None:
    values_write(ada, bob, "One.\nTwo.")
    page = log_in(bob)
    page.goto("/agents/ada/identity/values/propose/")
    values_write(ada, charlie, "One, said Charlie.\nTwo.")
    page.get_by_label("Text", exact=True).fill("One.\nTwo, said Bob.")
    expect(page.get_by_text("The section has changed.")).to_be_visible()
    page.get_by_role("button", name="Propose for review").click()
    expect(page.get_by_role("alert").filter(has_text="Not saved.")).to_contain_text("version 2 is active now")
    expect(page.get_by_label("Text", exact=True)).to_have_value("One.\nTwo, said Bob.")
    expect(page.get_by_role("region", name="Changes made meanwhile")).to_contain_text("One, said Charlie.")
    expect(page.get_by_role("region", name="Your changes")).to_contain_text("Two, said Bob.")
    assert_accessible(page)
    page.get_by_label("Text", exact=True).fill("One, said Charlie.\nTwo, said Bob.")
    expect(page.locator("#preview .diff-text.is-added")).to_have_count(1)
    page.get_by_role("button", name="Apply now").click()
    expect(page.get_by_text("Values is now version 3")).to_be_visible()
    assert current_text(ada) == "One, said Charlie.\nTwo, said Bob."


def test_identity_versions_are_compared_by_choice_and_by_key(log_in: LogIn, ada: Agent, bob: User, alice: User) -> None:
    values_write(ada, bob, "First text.", "Second text.", "Third text.")
    page = log_in(alice)
    page.goto("/agents/ada/identity/values/")
    page.get_by_label("From version 1").check()
    press_key(page, "d")
    expect(page.get_by_role("heading", level=1)).to_have_text("Values: version 1 → version 3")
    expect(page.locator("del")).to_have_text("First")
    expect(page.locator("ins")).to_have_text("Third")
    for layout in ("words", "unified"):
        press_key(page, "v")
        page.wait_for_url(f"**layout={layout}**")
    expect(page.locator(".diff.is-unified")).to_be_visible()
    press_key(page, "f")
    expect(page.get_by_role("heading", level=1)).to_have_text("Values: version 3 → version 1")
    press_key(page, "k")
    expect(page.get_by_role("heading", level=1)).to_have_text("Values: empty → version 1")
    press_key(page, "j")
    expect(page.get_by_role("heading", level=1)).to_have_text("Values: version 1 → version 2")
    page.goto("/agents/ada/identity/values/compare/")
    expect(page.locator(".diff.is-unified")).to_be_visible()


def test_identity_rollback_shows_the_change_and_is_undone(log_in: LogIn, ada: Agent, bob: User) -> None:
    values_write(ada, bob, "Old and good.", "New and bad.")
    page = log_in(bob)
    page.goto("/agents/ada/identity/values/")
    page.get_by_role("link", name="Roll back to this version 1").click()
    expect(page.locator(".diff-text.is-added").first).to_contain_text("Old and good.")
    expect(page.locator(".diff-text.is-removed").first).to_contain_text("New and bad.")
    page.get_by_label("Reason").fill("It went wrong.")
    page.get_by_role("button", name="Roll back to version 1").click()
    expect(page.get_by_text("Values is now version 3")).to_be_visible()
    assert current_text(ada) == "Old and good."
    page.get_by_role("button", name="Undo").click()
    page.wait_for_url("**/review/**")
    assert current_text(ada) == "New and bad."
