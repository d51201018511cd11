"""Locks of facts: first the learning lock, then the rows in the order of their keys."""

from collections.abc import Collection
from uuid import UUID

from identity.models import Agent
from memory.models import Fact
from nousweb.lib.errors import NotFound
from nousweb.lib.transactions import transaction_lock


def learning_lock(agent: Agent, persona: str) -> None:
    """Take the lock for learning in this memory until the end of the transaction, so that learning is serialised."""
    transaction_lock(f"learn:{agent.pk}:{persona}")


def facts_lock(agent_id: int, keys: Collection[UUID]) -> dict[UUID, Fact]:
    """Lock the existing facts among `keys` until the end of the transaction, in the order of their keys.

    To change several facts one after another, lock all of them first, to avoid deadlocks.
    """
    if not keys:
        return {}
    rows = Fact.objects.select_for_update(of=("self",), no_key=True).select_related("agent")
    return {row.pk: row for row in rows.filter(agent=agent_id, pk__in=keys).order_by("pk")}


def pair_lock(one: Fact, other: Fact) -> tuple[Fact, Fact]:
    """Lock two facts and read them again. Raises NotFound if one of them no longer exists."""
    facts = facts_lock(one.agent_id, [one.pk, other.pk])
    if len(facts) < 2:
        raise NotFound("There is no such fact.")
    return facts[one.pk], facts[other.pk]
