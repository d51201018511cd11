"""A long inbox and a large memory are placed and counted in the background: what pages show of them stays the same."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from context.feedback import health_score
from context.models import FigureSnapshot, InboxRank
from identity.models import Agent
from identity.principal import Principal
from identity.services.proposals import proposal_reject
from memory.models import SearchStatistics
from memory.services.facts import fact_invalidate
from nousweb.console.inbox import query
from nousweb.console.inbox.query import InboxQuery
from nousweb.console.tasks import keep_figures, keep_inbox_ranks
from tests.factories import make_fact, make_proposal, make_review, make_run
from tests.http import browser

pytestmark = pytest.mark.django_db


def test_ranks_place_items_as_reading_does(
    ada: Agent, actor: Principal, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    high = make_proposal(ada, actor, "values")
    make_proposal(ada, actor, "protocols", "Ask first.")
    make_review(ada, actor, "The lift never stops at night.", "The lift sometimes stops at night.")
    make_run(ada, actor)
    inbox = InboxQuery(Principal.of_user(bob))
    before, places = inbox.groups(size=9), [inbox.place(entry.id) for entry in inbox.entries()]
    assert keep_inbox_ranks() == 0, "a short inbox is placed as it is read"
    monkeypatch.setattr(query, "LONG_INBOX", 3)
    assert keep_inbox_ranks() == InboxRank.objects.count() == 3
    assert inbox.groups(size=9) == before
    assert [inbox.place(entry.id) for entry in inbox.entries()] == places
    late = make_proposal(ada, actor, "boundaries")
    assert {entry.id for entry in inbox.groups(size=9)} == {*(entry.id for entry in before), late.pk}
    proposal_reject(proposal=high, by=Principal.of_user(bob))
    keep_inbox_ranks()
    assert set(InboxRank.objects.values_list("item_id", flat=True)) == {entry.id for entry in inbox.entries()}


def test_figures_of_a_large_memory_are_those_of_the_last_count(
    ada: Agent, actor: Principal, bob: User, reviewer: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = [make_fact(ada, f"Bridge {place} opens at noon.", actor, subject=f"bridge {place}") for place in range(2)]
    make_fact(ada, "bridge 0 opens at noon!", actor, subject="the first bridge", exclude=[facts[0].pk])
    client = browser(bob)

    def shown() -> dict[str, Any]:
        health = client.get(reverse("agent_health", args=["ada"])).context["health"]
        listed = client.get(reverse("agent_health_list", args=["ada", "duplicates"])).context["page"].rows
        board = client.get(reverse("usage")).context["board"]
        return {
            "health": (health.facts, [count.number for count in health.counts]),
            "duplicates": [fact.pk for fact in listed],
            "index": client.get(reverse("agent_index", args=["ada"])).context["totals"],
            "growth": [(one.total, one.new) for one in board.memory],
            "referenced": board.calls.trends["referenced"],
        }

    before = shown()
    assert before["health"][0] == 3
    assert keep_figures() == 0, "a small memory is counted as it is read"
    SearchStatistics.objects.create(agent=ada, persona="actor", items=3, mean_words=5)
    monkeypatch.setattr(health_score, "LARGE_MEMORY", 3)
    assert keep_figures() == 1
    assert shown() == before
    page = client.get(reverse("agent_health", args=["ada"]))
    assert page.context["health"].at is not None
    assert len(before["duplicates"]) == 1
    duplicate = ada.facts.get(pk=before["duplicates"][0])
    fact_invalidate(fact=duplicate, reason="A copy.", by=reviewer)
    after = shown()
    assert after["health"] == before["health"], "it is as of the last count"
    assert after["duplicates"] == [], "what was marked as wrong is listed no longer"
    SearchStatistics.objects.all().delete()
    assert keep_figures() == 0
    assert not FigureSnapshot.objects.exists()
    assert shown()["health"][0] == 2
