"""What people decide is what agents are told: an agent over HTTP, and a person who decides by one key in Chromium."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from memory.services.search_index.row_embedding import embed_pending_rows
from tests.e2e.conftest import press_key
from tests.http import ApiClient

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PREFERENCES = "\n".join(f"- Preference number {place} is followed in each of the answers." for place in range(60))
OLD, NEW = "The billing database's substrate is PostgreSQL 15.", "The billing database's substrate is PostgreSQL 17."
QUESTION = "Which PostgreSQL does the billing database run?"


def prompt(agent: ApiClient, question: str) -> dict[str, Any]:
    answer = agent.post("/context", {"session_id": "story", "input": question})
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def facts_of(found: dict[str, Any]) -> list[str]:
    return [line for line in found["system_prompt"].splitlines() if "PostgreSQL 1" in line]


def test_one_key_each_decides_what_the_next_prompt_says(
    log_in: Callable[..., Page], actor_token: str, bob: User
) -> None:
    agent = ApiClient().as_token(actor_token)
    body = {"content": PREFERENCES, "reason": "Learned.", "mode": "propose"}
    assert agent.put("/identity/preferences", body).status_code == 202
    assert "Preference number 1 " not in prompt(agent, QUESTION)["system_prompt"]

    page = log_in(bob)
    page.goto("/review/")
    page.get_by_role("link", name="Start reviewing").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Preferences of Ada")
    press_key(page, "a")
    expect(page.get_by_text("Approved Preferences of Ada")).to_be_visible()
    found = prompt(agent, QUESTION)
    assert PREFERENCES in found["system_prompt"]
    assert found["truncated"] == []
    identity = next(section for section in found["sections"] if section["key"] == "identity")
    assert identity["tokens"] > identity["budget"] == 300

    for content in (OLD, NEW):
        learned = agent.post("/facts", {"content": content, "subject": "billing database"})
        assert learned.status_code == 201, learned.content
    assert learned.json()["action"] == "queued"
    embed_pending_rows()
    first, second = facts_of(prompt(agent, QUESTION))
    assert first.startswith("- (contested, newer, ")
    assert first.endswith(NEW)
    assert second.startswith("- (contested, older, ")
    assert second.endswith(OLD)

    page.goto("/review/memory/")
    page.get_by_role("link", name="Start reviewing").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("billing database")
    press_key(page, "1")
    expect(page.locator(".review-undo")).to_contain_text("Changed to")
    (left,) = facts_of(prompt(agent, QUESTION))
    assert left.endswith(NEW)
    assert "contested" not in left
