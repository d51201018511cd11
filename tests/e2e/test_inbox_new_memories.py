"""Thirty new memories that wait for consent, decided about by keys alone within a minute."""

import time
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.models import Agent
from identity.principal import Principal
from memory.models import Fact, MemoryReview
from memory.services.facts import fact_learn
from tests.e2e.conftest import press_key

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SECONDS = 60


def test_thirty_candidates_of_one_source_are_decided_in_a_minute(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, charlie: User
) -> None:
    Agent.objects.filter(pk=ada.pk).update(config={"consent": [{"action": "pending"}]})
    ada.refresh_from_db()
    words = ["ash", "beech", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine"]
    for number in range(30):
        content = f"The {words[number % 10]} in garden {number} is {number} metres tall."
        assert fact_learn(agent=ada, by=actor, content=content, source="https://trees.example").action == "pending"
    page = log_in(charlie)
    page.set_viewport_size({"width": 1440, "height": 900})
    began = time.monotonic()
    page.goto("/inbox/")
    expect(page.get_by_text("30 alike")).to_be_visible()
    press_key(page, "j")
    press_key(page, "Enter")
    expect(page.get_by_text("new memories of one writer and source")).to_be_visible()
    # All of the page but the second one, which is rejected.
    press_key(page, "X")
    press_key(page, "j")
    press_key(page, "j")
    press_key(page, "x")
    expect(page.locator("[data-bulk-count]").first).to_have_text("24 selected")
    press_key(page, "a")
    expect(page.locator("#page-head").get_by_text("6 pending")).to_be_visible()
    press_key(page, "j")
    press_key(page, "x")
    press_key(page, "r")
    expect(page.locator("#page-head").get_by_text("5 pending")).to_be_visible()
    press_key(page, "X")
    press_key(page, "a")
    expect(page.get_by_role("heading", name="Nothing is pending")).to_be_visible()
    seconds = time.monotonic() - began
    assert seconds < SECONDS
    resolved = MemoryReview.objects.filter(agent=ada)
    assert [resolved.filter(resolution=each).count() for each in ("allow", "hold")] == [29, 1]
    assert Fact.objects.filter(agent=ada).active().count() == 29
