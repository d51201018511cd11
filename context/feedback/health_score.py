"""The health of an agent's facts: how many are in each list of findings, and one score over them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from context.feedback.figure_snapshots import snapshot_of, snapshot_put
from context.feedback.health_findings import EACH, FINDINGS, PARTS, UNUSED_AFTER, HealthFinding
from memory.lifecycle.handler import NEVER_STALE, STALE_AFTER
from memory.models import Fact
from memory.persona import PersonaMemory
from memory.policy import PROFILE_CATEGORIES
from nousweb.lib import clock

HEALTH = "health"
LISTED = 2_000
"""Facts of a list that are kept of a large memory."""


@dataclass(frozen=True, slots=True)
class HealthFindingCount:
    """The number of facts in a list, and the points that it subtracts from the score."""

    finding: HealthFinding
    number: int
    total: int

    @property
    def percent(self) -> float:
        """The share of the facts that are listed."""
        return 100 * self.number / self.total if self.total else 0.0

    @property
    def points(self) -> float:
        return self.finding.weight * self.percent


@dataclass(frozen=True, slots=True)
class MemoryHealth:
    """The number of current facts, including quarantined ones with a pending review, and the counts of each list."""

    facts: int
    counts: tuple[HealthFindingCount, ...]
    at: datetime | None = None
    """When a large memory was counted; None for now."""

    @property
    def score(self) -> int | None:
        """0 to 100: 100 × max(0, 1 − Σ weight × listed / facts), rounded down; None without facts.

        A fact in two lists counts in both. `health_weights` has the weights.
        """
        if not self.facts:
            return None
        return int(max(0.0, 100 - sum(count.points for count in self.counts)))


def memory_health(view: PersonaMemory, now: datetime) -> MemoryHealth:
    """The health of the facts that `view` shows; for a large memory the last snapshot. At most two statements."""
    snapshot = snapshot_of(HEALTH, view.agent.pk, both=len(view.personas) > 1)
    return _health(snapshot.value, snapshot.at) if snapshot else _health(_counted(view, now))


def facts_found(view: PersonaMemory, finding: HealthFinding, now: datetime) -> tuple[QuerySet[Fact], datetime | None]:
    """The facts of one list. For a large memory, the latest LISTED ones that are current, and when it was made."""
    snapshot = snapshot_of(f"{HEALTH}: {finding.key}", view.agent.pk, both=len(view.personas) > 1)
    if snapshot is None:
        return _found(view, finding, now), None
    facts = view.facts.filter(pk__in=snapshot.value)
    return (facts if finding.key == "held" else facts.current(now)), snapshot.at


def health_refresh(view: PersonaMemory) -> None:
    """Store the health of a large memory, with the latest facts of each list."""
    now = clock.now()
    both = len(view.personas) > 1
    snapshot_put(HEALTH, view.agent.pk, _counted(view, now), both=both)
    for key, finding in FINDINGS.items():
        latest = _found(view, finding, now).order_by("-recorded_at", "-id").values_list("pk", flat=True)[:LISTED]
        snapshot_put(f"{HEALTH}: {key}", view.agent.pk, [str(pk) for pk in latest], both=both)


def _health(counted: dict[str, int], at: datetime | None = None) -> MemoryHealth:
    total = counted["facts"]
    counts = tuple(HealthFindingCount(one, counted.get(key, 0), total) for key, one in FINDINGS.items())
    return MemoryHealth(total, counts, at)


def _counted(view: PersonaMemory, now: datetime) -> dict[str, int]:
    """By finding how many facts it lists, and how many `facts` there are. One statement."""
    listed = [one for one in FINDINGS.values() if one.statement]
    each = [one for one in FINDINGS.values() if one.condition]
    # Only constants of this product make the statement; values are bound.
    numbers = ", ".join(
        [f"(SELECT count(*) FROM ({one.statement}) AS found)" for one in listed]  # noqa: S608
        + [f"count(*) FILTER (WHERE {one.condition})" for one in each]
    )
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {_with(PARTS)} SELECT count(*), {numbers} FROM {EACH}", _values(view, now))  # noqa: S608
        total, *found = cursor.fetchone()
    counts = {one.key: number for one, number in zip((*listed, *each), found, strict=True)}
    return counts | {"facts": total + counts["held"]}


def _found(view: PersonaMemory, finding: HealthFinding, now: datetime) -> QuerySet[Fact]:
    own = finding.statement or f"SELECT fact.id FROM {EACH} AND ({finding.condition})"  # noqa: S608
    parts = f"WITH {_with(finding.reads)} " if finding.reads else ""
    values = _values(view, now)
    named = re.compile(r"%\((\w+)\)s")
    placed = [values[name] for name in named.findall(parts + own)]
    return view.facts.filter(pk__in=RawSQL(named.sub("%s", parts + own), placed))  # noqa: S611


def _with(names: Iterable[str]) -> str:
    return ", ".join(f"{name} AS MATERIALIZED ({PARTS[name]})" for name in names)


def _values(view: PersonaMemory, now: datetime) -> dict[str, Any]:
    return {
        "agent": view.agent.pk,
        "personas": list(view.personas),
        "now": now,
        "stale": now - STALE_AFTER,
        "unused": now - UNUSED_AFTER,
        "ageless": list(NEVER_STALE),
        "always": list(PROFILE_CATEGORIES),
    }
