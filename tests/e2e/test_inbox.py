"""The inbox in a real browser, by keyboard alone: opened, talked about, put off, and gone on with."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.models import Agent, ItemComment, ItemSnooze, Notification
from identity.principal import Principal
from tests.e2e.conftest import press_key
from tests.factories import make_proposal, make_review

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_item_is_talked_about_snoozed_and_gone_on_from_by_key(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User, charlie: User
) -> None:
    high = make_proposal(ada, actor)
    make_review(ada, actor, "The lift never stops at night.", "The lift sometimes stops at night.")
    low = make_proposal(ada, actor, "protocols", "Ask first.")
    page = log_in(bob)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/inbox/")
    expect(page.get_by_role("link", name="All 3")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    press_key(page, "j")
    press_key(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Values of Ada")
    press_key(page, "C")
    page.keyboard.type("Is this so, @ch")
    expect(page.get_by_role("listbox", name="People to mention").get_by_text("charlie")).to_be_visible()
    press_key(page, "Enter")
    page.keyboard.type("?")
    press_key(page, "Tab")
    press_key(page, "Enter")
    expect(page.locator(".item-comments .mention")).to_have_text("@charlie")
    assert ItemComment.objects.get().text == "Is this so, @charlie ?"
    assert Notification.objects.get(kind="mention").person == charlie
    press_key(page, "Z")
    expect(page.get_by_role("button", name="Until tomorrow")).to_be_focused()
    press_key(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Contradiction")
    assert ItemSnooze.objects.get().item_id == high.pk
    press_key(page, "5")
    # The next one is of another kind, and after the last one the inbox says so.
    expect(page.get_by_role("heading", level=1)).to_have_text("Protocols of Ada")
    press_key(page, "a")
    expect(page.get_by_role("heading", name="Nothing is pending")).to_be_visible()
    low.refresh_from_db()
    assert low.status == "approved"
    told = log_in(charlie)
    told.goto("/")
    told.get_by_role("link", name="Notifications 1 unread").click()
    expect(told.get_by_text("Mentioned you")).to_be_visible()
