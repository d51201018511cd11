"""The locks of facts: first that of learning, then rows in the order of their keys."""

from collections.abc import Collection
from uuid import UUID

from django.db import connection

from identity.models import Agent
from memory.models import Fact
from nousweb.lib.errors import NotFound


def learning_lock(agent: Agent, persona: str) -> None:
    """Wait for whoever learns for the same memory, until the end of their transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"learn:{agent.pk}:{persona}"])


def facts_lock(agent_id: int, keys: Collection[UUID]) -> dict[UUID, Fact]:
    """Those of these facts that are there, locked until the transaction ends, in the order that all lock them in.

    Whoever is going to change several, one after another, locks them first.
    """
    if not keys:
        return {}
    rows = Fact.objects.select_for_update(of=("self",), no_key=True).select_related("agent")
    return {row.pk: row for row in rows.filter(agent=agent_id, pk__in=keys).order_by("pk")}


def pair_lock(one: Fact, other: Fact) -> tuple[Fact, Fact]:
    """Both facts as they stand, locked. Raises NotFound when one of them has gone."""
    found = facts_lock(one.agent_id, [one.pk, other.pk])
    if len(found) < 2:
        raise NotFound("There is no such fact.")
    return found[one.pk], found[other.pk]
