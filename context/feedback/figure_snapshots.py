"""Snapshots of figures about large memories, computed by the worker and stored with their time; and each day's health
score of every memory."""

from collections.abc import Collection
from contextlib import nullcontext, suppress
from typing import Any

from django.db import transaction
from django.db.models import F, Min, Q, Sum

from context.models import FigureSnapshot
from identity.models import Agent, Persona
from identity.services.agent_lock import agent_lock_shared
from memory.models import SearchStatistics
from nousweb.lib import NotFound, clock

HEALTH_BY_DAY = "health by day"
LARGE_MEMORY = 20_000
"""Memories of an agent, as the worker counts them for searches, from which its figures are kept."""


def snapshot_of(name: str, agent: int | None, *, both: bool) -> FigureSnapshot | None:
    """The figures of this name of an agent, or of all agents, in the view of one persona or of both."""
    return FigureSnapshot.objects.filter(_whose(agent), name=name, persona=_persona(both)).first()


def snapshots_of(names: Collection[str], agent: int | None, *, both: bool) -> dict[str, FigureSnapshot]:
    """By name the figures of these names that are kept. One query."""
    found = FigureSnapshot.objects.filter(_whose(agent), name__in=names, persona=_persona(both))
    return {snapshot.name: snapshot for snapshot in found}


def snapshot_put(name: str, agent: int | None, value: Any, *, both: bool) -> None:
    """Keep figures as they are now; none of an agent that is gone."""
    with suppress(NotFound), transaction.atomic(), nullcontext() if agent is None else agent_lock_shared(agent):
        snapshot = snapshot_of(name, agent, both=both)
        snapshot = snapshot or FigureSnapshot(name=name, agent_id=agent, persona=_persona(both))
        snapshot.value, snapshot.at = value, clock.now()
        snapshot.save()


def large_memories() -> list[Agent]:
    """The agents with snapshots, those with the oldest figures first. Figures of other agents are deleted."""
    sums = SearchStatistics.objects.order_by().values("agent").annotate(size=Sum("items"))
    large = sums.filter(size__gte=LARGE_MEMORY).values("agent")
    found = Agent.objects.filter(pk__in=large).annotate(
        counted=Min("figures__at", filter=~Q(figures__name=HEALTH_BY_DAY))
    )
    agents: list[Agent] = list(found.order_by(F("counted").asc(nulls_first=True), "pk"))
    kept = Q(name=HEALTH_BY_DAY) | Q(agent__in=agents) | (Q(agent=None) if agents else Q(pk__in=()))
    FigureSnapshot.objects.exclude(kept).delete()
    return agents


def _whose(agent: int | None) -> Q:
    return Q(agent=None) if agent is None else Q(agent=agent)


def _persona(both: bool) -> str:
    return Persona.SUBCONSCIOUS.value if both else Persona.ACTOR.value
