"""What was decided without people is undone in bulk, by key."""

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


def test_decisions_are_undone_in_bulk_by_key(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    Agent.objects.filter(pk=ada.pk).update(config={"attention": {"per_day": 0}})
    for content in (
        "Tim enjoys drinking green tea in the morning.",
        "Tim likes to drink green tea in the mornings.",
        "Tim lives in Graz.",
        "Tim lives in Linz.",
        "Ann lives in Graz.",
        "Ann lives in Linz.",
    ):
        fact_learn(agent=ada, content=content, subject=content[:3], by=actor)
    page = log_in(bob)
    page.goto("/review/memory/")
    page.get_by_role("link", name="Decided automatically").click()
    rows = page.locator("[data-keyitem]")
    expect(rows).to_have_count(2)
    for _ in range(2):
        press_key(page, "j")
        press_key(page, "x")
    expect(page.locator("[data-bulk-count]")).to_have_text("2 selected")
    press_key(page, "u")
    expect(page.get_by_text("2 older facts were restored.")).to_be_visible()
    expect(rows).to_have_count(0)
    assert Fact.objects.active().filter(content__contains="lives").count() == 4
    page.get_by_role("link", name="Held back 1").click()
    press_key(page, "j")
    press_key(page, "x")
    page.get_by_role("button", name="Move to the inbox").click()
    expect(page.get_by_text("1 review is pending now.")).to_be_visible()
    expect(rows).to_have_count(1)
    assert MemoryReview.objects.get().status == "pending"
