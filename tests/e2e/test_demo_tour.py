"""The guided demo in a browser: by keyboard, on a phone, across reloads."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.models import Agent
from identity.principal import Principal
from identity.services.personal_settings import demo_tour_begin
from tests.e2e.conftest import assert_accessible, press_key
from tests.factories import make_fact, make_proposal, make_review, make_run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_guided_demo_is_done_by_keyboard_and_follows_to_a_phone(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    make_proposal(ada, actor, "preferences")
    make_fact(ada, "The carts of the checkout are kept in Redis.", actor)
    make_run(ada, actor, "Checkout is slow. Where are the carts?")
    make_review(ada, actor, "Tim never swims in the sea.", "Tim sometimes swims in the sea.")
    demo_tour_begin(agent=ada, by=Principal.of_user(bob))
    page = log_in(bob)
    tour = page.get_by_role("region", name="Guided demo")

    def go_on(action: str, heading: str) -> None:
        tour.get_by_role("link", name=action).focus()
        press_key(page, "Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text(heading)

    page.goto("/")
    assert_accessible(page)
    go_on("Open the change", "Preferences of Ada")
    press_key(page, "a")
    expect(tour).to_contain_text("2 of 4.")
    go_on("Open the prompt", "Checkout is slow.")
    page.get_by_label("With the words").fill("Redis")
    press_key(page, "Enter")
    expect(tour).to_contain_text("3 of 4.")  # on the same page, without loading it again
    go_on("Open the review", "Tim")
    press_key(page, "5")
    expect(tour).to_contain_text("4 of 4.")

    phone = log_in(bob, width=390, height=844)
    phone.goto("/inbox/")
    told = phone.get_by_role("region", name="Guided demo")
    expect(told).to_contain_text("4 of 4. Undo a decision")
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    told.locator("summary").click()
    told.get_by_role("link", name="Open your last decision").click()
    phone.get_by_role("button", name="Undo").click()
    expect(told).to_contain_text("All four steps are done")
    told.get_by_role("button", name="Close").click()
    expect(told).to_have_count(0)
    page.reload()
    expect(tour).to_have_count(0)
