"""Versions are compared and rolled back in one page, whose address follows; without script by whole pages."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.models import Agent, IdentityVersion
from identity.principal import Principal
from identity.services.proposals import identity_propose
from tests.e2e.conftest import press_key
from tests.factories import make_proposal

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LogIn = Callable[..., Page]


@pytest.fixture
def versions(ada: Agent, bob: User) -> None:
    for text in ("One.", "Two.", "Three."):
        identity_propose(agent=ada, section="values", content=text, by=Principal.of_user(bob))


def current() -> str:
    return IdentityVersion.objects.current().get(section="values").content


def mark(page: Page) -> None:
    """Leaves a mark that a page which is loaded anew does not have."""
    page.wait_for_load_state("load")
    page.evaluate("window.mark = true")


def is_same_page(page: Page) -> bool:
    return bool(page.evaluate("window.mark === true"))


def test_versions_are_picked_and_rolled_back_in_one_page(log_in: LogIn, versions: None, bob: User) -> None:
    page = log_in(bob)
    page.goto("/agents/ada/identity/values/")
    mark(page)
    heading = page.get_by_role("heading", level=1)
    page.get_by_role("button", name="Compare marked").click()
    expect(heading).to_contain_text("version 2 → version 3")
    page.get_by_label("From", exact=True).fill("1")
    page.get_by_label("From", exact=True).press("Tab")
    expect(heading).to_contain_text("version 1 → version 3")
    assert "from=1&to=3" in page.url
    expect(page).to_have_title("Values 1 → 3 · Ada · Nous")
    press_key(page, "Escape")
    press_key(page, "f")
    expect(heading).to_contain_text("version 3 → version 1")
    expect(page.locator(":focus")).to_have_count(1)
    page.get_by_role("link", name="Roll back to version 1").click()
    expect(heading).to_have_text("Roll back Values to version 1")
    page.get_by_label("Reason").fill("It was right.")
    page.get_by_role("button", name="Roll back to version 1").click()
    expect(page.get_by_text("Values is now version 4")).to_be_visible()
    assert is_same_page(page)
    assert current() == "One."
    assert "applied=" in page.url
    page.go_back()
    expect(heading).to_have_text("Roll back Values to version 1")
    page.go_back()
    expect(heading).to_contain_text("version 3 → version 1")


def test_picker_says_that_a_version_is_missing(log_in: LogIn, versions: None, bob: User) -> None:
    page = log_in(bob)
    page.goto("/agents/ada/identity/values/compare/?from=1&to=2")
    mark(page)
    page.get_by_label("To", exact=True).fill("9")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("has no version 9; its latest is 3")).to_be_visible()
    assert is_same_page(page)


def test_versions_without_script(log_in: LogIn, versions: None, bob: User) -> None:
    page = log_in(bob, javascript=False)
    page.goto("/agents/ada/identity/values/compare/?from=1&to=2")
    page.get_by_label("From", exact=True).fill("2")
    page.get_by_label("To", exact=True).fill("1")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("version 2 → version 1")
    page.get_by_role("link", name="Roll back to version 1").click()
    page.get_by_role("button", name="Roll back to version 1").click()
    expect(page.get_by_text("Values is now version 4")).to_be_visible()
    assert current() == "One."


def test_layout_of_a_proposal_is_switched_beside_typed_text(
    log_in: LogIn, ada: Agent, actor: Principal, bob: User
) -> None:
    proposal = make_proposal(ada, actor)
    page = log_in(bob)
    page.goto(proposal.get_absolute_url())
    page.locator("#comment").fill("Kept.")
    page.get_by_role("link", name="Unified").click()
    expect(page.locator("#item-text .diff.is-unified")).to_be_visible()
    assert "layout=unified" in page.url
    expect(page.locator("#comment")).to_have_value("Kept.")
