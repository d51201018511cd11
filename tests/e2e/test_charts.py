"""The charts of Usage: a column tells its day to the mouse and to the keys."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from identity.models import Agent
from identity.principal import Principal
from nousweb.lib import clock
from tests.factories import make_run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_column_tells_its_day_to_the_mouse_and_to_the_keys(
    ada: Agent, actor: Principal, bob: User, log_in: Callable[..., Page]
) -> None:
    for days in range(3):
        with clock.at(clock.now() - timedelta(days=days)):
            make_run(ada, actor)
    page = log_in(bob)
    page.goto(reverse("usage"))
    chart = page.locator(".chart svg").first
    told = chart.locator(".chart-told:visible")
    expect(told).to_have_count(0)
    chart.locator(".chart-col").nth(11).hover(force=True)
    expect(told).to_contain_text("1 prompt")
    expect(chart.locator(".chart-value:visible")).to_have_count(0)
    page.mouse.move(0, 0)
    chart.focus()
    days = []
    for key in ("ArrowRight", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
        expect(told).to_have_count(1)
        days.append(told.text_content())
    titles = chart.locator(".chart-told").all_text_contents()
    assert days == titles[:-4:-1], "from today on back"
    page.keyboard.press("Tab")
    expect(told).to_have_count(0)
