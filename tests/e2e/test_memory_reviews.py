"""The tour: a contradicting fact comes by the API, is answered by key, followed in the trail, and undone."""

import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from identity.models import Agent
from identity.principal import Principal
from memory.models import Fact, MemoryReview
from tests.e2e.conftest import press_key
from tests.factories import make_review, pair_review
from tests.http import ApiClient

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

OLD, NEW = "The nightly job's twin is the archive of Graz.", "The nightly job's twin is the archive of Linz."


def test_review_of_a_contradiction_leads_to_the_bitemporal_chart(
    log_in: Callable[..., Page], actor_token: str, bob: User
) -> None:
    agent = ApiClient().as_token(actor_token)
    for content in (OLD, NEW):
        told = json.loads(agent.post("/facts", {"content": content, "subject": "nightly job"}).content)
    assert told["action"] == "queued"
    pair_review(told["review"])

    page = log_in(bob)
    page.goto("/review/memory/")
    expect(page.get_by_role("link", name="Inbox 1 pending")).to_be_visible()
    expect(page.get_by_role("link", name="Reviews 1")).to_be_visible()
    press_key(page, "j")
    press_key(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Contradiction")
    press_key(page, "?")
    for words in ("New replaces old", "Both are true", "Merge into one text"):
        expect(page.locator("#keyhelp")).to_contain_text(words)
    press_key(page, "Escape")
    press_key(page, "3")
    expect(page.locator(".review-undo")).to_contain_text("Changed to Linz")
    assert [fact.content for fact in Fact.objects.active()] == [NEW]

    page.goto("/agents/ada/supersessions/?subject=nightly&way=person")
    expect(page.locator(".diff del")).to_have_text("Graz")
    expect(page.locator(".diff ins")).to_have_text("Linz")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("The old fact was restored")).to_be_visible()
    assert {fact.content for fact in Fact.objects.active()} == {OLD, NEW}
    assert MemoryReview.objects.get().status == "pending"

    page.goto("/agents/ada/subjects/nightly%20job/")
    expect(page.locator(".lane.holds")).to_have_count(2)
    expect(page.locator(".lane").first).to_contain_text("recorded")
    press_key(page, "T")
    page.get_by_label("As of").fill("2020-01-01T00:00")
    # Neither of them was known then.
    expect(page.get_by_text("No facts were ever stored about this subject.")).to_be_visible()
    expect(page.locator(".lane")).to_have_count(0)


def test_review_resolutions_advance_and_are_undone_by_key(
    log_in: Callable[..., Page], actor_token: str, bob: User
) -> None:
    agent = ApiClient().as_token(actor_token)
    for thing in ("archive", "ledger"):
        for town in ("Graz", "Linz"):
            told = agent.post("/facts", {"content": f"The {thing} job's twin is in {town}.", "subject": f"{thing} job"})
        pair_review(told.json()["review"])
    assert MemoryReview.objects.pending().count() == 2
    page = log_in(bob)
    page.goto("/review/memory/")
    page.get_by_role("link", name="Start reviewing").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("archive job")
    press_key(page, "5")
    expect(page.get_by_role("heading", level=1)).to_contain_text("ledger job")
    expect(page.locator(".review-undo")).to_contain_text("Kept both")
    press_key(page, "u")
    expect(page.get_by_role("heading", level=1)).to_contain_text("archive job")
    expect(page.get_by_role("button", name="Choose a resolution")).to_be_disabled()
    page.get_by_role("radio", name="Both are true").check()
    press_key(page, "Enter")
    expect(page.locator(".review-undo")).to_contain_text("Kept both")
    expect(page.get_by_role("heading", level=1)).to_contain_text("ledger job")
    press_key(page, "u")
    expect(page.get_by_role("heading", level=1)).to_contain_text("archive job")
    expect(page.get_by_text("The resolution was undone")).to_be_visible()
    press_key(page, "m")
    page.get_by_label("Merged text").fill("The archive job rarely fails at night.")
    page.get_by_role("button", name="Save merged text").click()
    expect(page.locator(".review-undo")).to_contain_text("Merged")
    page.goto("/review/memory/?status=decided")
    expect(page.get_by_text("Merged").first).to_be_visible()
    assert Fact.objects.active().filter(content="The archive job rarely fails at night.").exists()


def test_phone_applies_the_chosen_resolution_and_offers_no_other_way(
    log_in: Callable[..., Page], ada: Agent, actor: Principal, bob: User
) -> None:
    review = make_review(ada, actor, "The lift never stops at night.", "The lift sometimes stops at night.")
    page = log_in(bob, width=390, height=844)
    page.goto(f"/review/memory/{review.pk}/")
    bar = page.get_by_role("group", name="Decision")
    expect(page.get_by_role("radio").first).to_be_in_viewport()
    expect(bar.get_by_role("button", name="Choose a resolution")).to_be_in_viewport(ratio=1)
    expect(bar.get_by_role("button", name="Choose a resolution")).to_be_disabled()
    page.get_by_role("radio", name="Both are true").check()
    expect(bar.get_by_role("button", name="Apply: Both are true")).to_be_enabled()
    page.get_by_role("radio", name="New replaces old").check()
    bar.get_by_role("button", name="Apply: New replaces old").click()
    expect(page.locator(".review-undo")).to_be_visible()
    review.refresh_from_db()
    assert (review.status, review.resolution) == ("resolved", "replace")
