"""The health of an agent's facts: how many are in each list of findings, and one score over them; snapshots of such
figures; the tokens that a fact costs; and outcomes of similar tasks, by the fingerprint of their context.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import date, datetime
from math import floor
from typing import Any

from django.db import transaction
from django.db.models import Avg, Count, F, FloatField, Max, Min, Q, QuerySet, Subquery, Sum, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast, Coalesce

from context.feedback.health_findings import EACH, FINDINGS, PARTS, UNUSED_AFTER, HealthFinding
from context.models import ContextRun, FigureSnapshot, MemoryUsage
from identity.models import Agent, Persona
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_shared
from memory.lifecycle.handler import NEVER_STALE, STALE_AFTER
from memory.models import Fact, ItemType, SearchItem, SearchStatistics
from memory.persona import PersonaMemory
from memory.policy import PROFILE_CATEGORIES
from memory.policy.oversight import wilson_interval
from nousweb.lib import NotFound, clock
from nousweb.lib.transactions import sql_row

HEALTH_BY_DAY = "health by day"
LARGE_MEMORY = 20_000
"""Memories of an agent, as the worker counts them for searches, from which its figures are kept."""


def snapshot_of(name: str, agent: int | None, *, both: bool) -> FigureSnapshot | None:
    """The figures of this name of an agent, or of all agents, in the view of one persona or of both."""
    return FigureSnapshot.objects.filter(agent=agent, name=name, persona=_persona(both)).first()


def snapshots_of(names: Collection[str], agent: int | None, *, both: bool) -> dict[str, FigureSnapshot]:
    """By name the figures of these names that are kept. One query."""
    found = FigureSnapshot.objects.filter(agent=agent, name__in=names, persona=_persona(both))
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
    found = Agent.objects.filter(pk__in=sums.filter(size__gte=LARGE_MEMORY).values("agent")).annotate(
        counted=Min("figures__at", filter=~Q(figures__name=HEALTH_BY_DAY))
    )
    agents: list[Agent] = list(found.order_by(F("counted").asc(nulls_first=True), "pk"))
    kept = Q(name=HEALTH_BY_DAY) | Q(agent__in=agents) | (Q(agent=None) if agents else Q(pk__in=()))
    FigureSnapshot.objects.exclude(kept).delete()
    return agents


def _persona(both: bool) -> str:
    return Persona.SUBCONSCIOUS.value if both else Persona.ACTOR.value


SORTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "wasted": ("Tokens without use", ("-wasted", "-included")),
    "told": ("Tokens included", ("-included",)),
    "times": ("Times shown", ("-times", "-included")),
    "least": ("Least referenced", ("share", "-included")),
    "most": ("Most referenced", ("-share", "-included")),
}
"""Label and columns of each order; the first is the page's own."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One memory in a period: times and tokens in prompts, and references by answers.

    `text` is "" if the memory is gone or quarantined. `wasted` are the tokens without a reference.
    """

    type: str
    id: str
    text: str
    persona: str
    times: int
    referenced: int
    included: int
    wasted: int
    last: datetime

    @property
    def percent(self) -> int:
        """The share of its tokens that was referred to."""
        return round(100 * (self.included - self.wasted) / self.included) if self.included else 0


USES_READ = 20_000
"""Maximum number of the latest uses that are counted."""


def ledger(view: PersonaMemory, since: datetime, sort: str) -> QuerySet[Any]:
    """A row for each memory that prompts with a reported answer showed since a moment, in an order of `SORTS`.

    Only the latest USES_READ uses count.
    """
    uses = MemoryUsage.objects.filter(agent=view.agent, persona__in=view.personas)
    earliest = uses.filter(at__gte=since).order_by("-at").values("at")[USES_READ : USES_READ + 1]
    rows = uses.filter(at__gte=Coalesce(Subquery(earliest), Value(since)), item_type__in=ItemType.values)
    return (
        rows.order_by()
        .values("item_type", "item_id")
        .annotate(
            times=Count("pk"),
            references=Count("pk", filter=Q(referenced=True)),
            included=Coalesce(Sum("tokens"), 0),
            wasted=Coalesce(Sum("tokens", filter=Q(referenced=False)), 0),
            last=Max("at"),
        )
        .annotate(share=Cast(F("references"), FloatField()) / F("times"))
        .order_by(*SORTS[sort][1], "item_type", "item_id")
    )


def ledger_rows(view: PersonaMemory, counted: Iterable[Mapping[str, Any]]) -> list[LedgerRow]:
    """The rows of one page with the texts of the memories. One statement."""
    counted = list(counted)
    items = SearchItem.objects.filter(
        agent=view.agent,
        persona__in=view.personas,
        item_type__in={row["item_type"] for row in counted},
        item_id__in={row["item_id"] for row in counted},
    )
    texts = {(kind, key): (text, persona) for kind, key, text, persona in items.values_list(
        "item_type", "item_id", "text", "persona"
    )}  # fmt: skip
    return [
        LedgerRow(
            row["item_type"],
            row["item_id"],
            *texts.get((row["item_type"], row["item_id"]), ("", "")),
            row["times"],
            row["references"],
            row["included"],
            row["wasted"],
            row["last"],
        )
        for row in counted
    ]


HEALTH = "health"
DAYS_KEPT = 90
"""Scores of past days that are kept, for a chart."""
LISTED = 2_000
"""Facts of a list that are kept of a large memory."""
NAMED = 200
"""Facts of a list that are kept with its number."""
_TOLD = f"concat_ws(' ', count(*){{0}}, array_to_string((array_agg(id ORDER BY id){{0}})[1:{NAMED}], ' '))"
"""The number of facts of a list, and the ids of some of them, which are the same each time, as one text."""


@dataclass(frozen=True, slots=True)
class HealthFindingCount:
    """The number of facts in a list, the ids of NAMED of them, and the points that it subtracts from the score."""

    finding: HealthFinding
    number: int
    total: int
    named: tuple[str, ...] = ()

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
    def found(self) -> frozenset[str]:
        """The keys of the findings that list facts."""
        return frozenset(count.finding.key for count in self.counts if count.number)

    @property
    def score(self) -> float | None:
        """0 to 100: 100 × max(0, 1 − Σ weight × listed / facts), rounded down to a tenth; None without facts.

        A fact in two lists counts in both. `health_weights` has the weights.
        """
        if not self.facts:
            return None
        return floor(round(10 * max(0.0, 100 - sum(count.points for count in self.counts)), 6)) / 10


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
    return (facts if finding.key == "quarantined" else facts.current(now)), snapshot.at


def health_refresh(view: PersonaMemory) -> None:
    """Store the health of a large memory, with the latest facts of each list."""
    now = clock.now()
    both = len(view.personas) > 1
    snapshot_put(HEALTH, view.agent.pk, _counted(view, now), both=both)
    for key, finding in FINDINGS.items():
        latest = _found(view, finding, now).order_by("-recorded_at", "-id").values_list("pk", flat=True)[:LISTED]
        snapshot_put(f"{HEALTH}: {key}", view.agent.pk, [str(pk) for pk in latest], both=both)


@dataclass(frozen=True, slots=True)
class DayHealth:
    """The score of a day, and the keys of the findings that listed facts; None where only the score was kept."""

    score: float
    found: frozenset[str] | None = None


def score_moved(now: float, before: float) -> str:
    """The change of a score as the beginning of a comparison: "2 points lower than", or "as"."""
    points = round(abs(now - before), 1)
    return (
        f"{points:g} point{'' if points == 1 else 's'} {'higher' if now > before else 'lower'} than" if points else "as"
    )


def health_read(value: Mapping[str, Any]) -> dict[date, DayHealth]:
    """The health by day of a snapshot HEALTH_BY_DAY, the days in their order."""
    return {
        date.fromisoformat(day): DayHealth(one[0], frozenset(one[1])) if isinstance(one, list) else DayHealth(one)
        for day, one in sorted(value.items())
    }


def health_by_day(view: PersonaMemory) -> dict[date, DayHealth]:
    """The health of past days that was kept, as it was when the worker counted it."""
    kept = snapshot_of(HEALTH_BY_DAY, view.agent.pk, both=len(view.personas) > 1)
    return health_read(kept.value) if kept else {}


def score_keep(view: PersonaMemory) -> bool:
    """Keep today's score and kinds of finding as they are now, for DAYS_KEPT days; returns whether they are new."""
    now, both = clock.now(), len(view.personas) > 1
    today = now.date().isoformat()
    kept = snapshot_of(HEALTH_BY_DAY, view.agent.pk, both=both)
    days = kept.value if kept else {}
    if (health := memory_health(view, now)).score is None:
        return False
    told = [health.score, sorted(health.found)]
    snapshot_put(HEALTH_BY_DAY, view.agent.pk, dict(sorted({**days, today: told}.items())[-DAYS_KEPT:]), both=both)
    return days.get(today) != told


def _health(counted: dict[str, Any], at: datetime | None = None) -> MemoryHealth:
    total = counted["facts"]
    named = counted.get("named", {})
    return MemoryHealth(
        total,
        tuple(
            HealthFindingCount(one, counted.get(key, 0), total, tuple(named.get(key, ())))
            for key, one in FINDINGS.items()
        ),
        at,
    )


def _counted(view: PersonaMemory, now: datetime) -> dict[str, Any]:
    """By finding how many facts it lists, how many `facts` there are, and by finding the ids of those that are `named`.
    One statement."""
    listed = [finding for finding in FINDINGS.values() if finding.statement]
    each = [finding for finding in FINDINGS.values() if finding.condition]
    # Only constants of this product make the statement; values are bound.
    numbers = ", ".join(
        [f"(SELECT {_TOLD.format('')} FROM ({one.statement}) AS found)" for one in listed]  # noqa: S608
        + [_TOLD.format(f" FILTER (WHERE {one.condition})") for one in each]
    )
    total, *found = sql_row(f"WITH {_with(PARTS)} SELECT count(*), {numbers} FROM {EACH}", _values(view, now))  # noqa: S608
    told = {one.key: words.split() for one, words in zip((*listed, *each), found, strict=True)}
    counts = {key: int(number) for key, (number, *_) in told.items()}
    return {**counts, "facts": total + counts["quarantined"], "named": {key: ids for key, (_, *ids) in told.items()}}


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


SHOWN = 100
FEW = 10
"""Below so many reported outcomes a rate is shown as uncertain."""


@dataclass(frozen=True, slots=True)
class FingerprintRow:
    """Runs of one fingerprint. `low` and `high` bound the success rate, 0 to 1, at 95 %."""

    id: str
    runs: int
    success: int
    failure: int
    tokens: float
    last: datetime
    about: Mapping[str, Any]

    @property
    def reported(self) -> int:
        return self.success + self.failure

    @property
    def rate(self) -> float | None:
        return self.success / self.reported if self.reported else None

    @property
    def percent(self) -> int | None:
        return None if self.rate is None else round(100 * self.rate)

    @property
    def low(self) -> int:
        return round(100 * wilson_interval(self.success, self.reported)[0])

    @property
    def high(self) -> int:
        return round(100 * wilson_interval(self.success, self.reported)[1])

    @property
    def width(self) -> int:
        return self.high - self.low

    @property
    def few(self) -> bool:
        return self.reported < FEW


def fingerprints(agent: Agent, by: Principal, since: datetime | None = None) -> list[FingerprintRow]:
    """The fingerprints with most runs, at most SHOWN, in two queries. The runs' log ends with its retention."""
    runs = ContextRun.objects.visible_to(by).filter(agent=agent).exclude(fingerprint_id="")
    if since:
        runs = runs.filter(created_at__gte=since)
    counted = list(
        runs.order_by()
        .values("fingerprint_id")
        .annotate(
            count=Count("pk"),
            success=Count("pk", filter=Q(outcome="success")),
            failure=Count("pk", filter=Q(outcome="failure")),
            mean_tokens=Avg("tokens"),
            last=Max("created_at"),
        )
        .order_by("-count", "fingerprint_id")[:SHOWN]
    )
    about = dict(
        runs.filter(fingerprint_id__in=[row["fingerprint_id"] for row in counted])
        .order_by("fingerprint_id", "-created_at")
        .distinct("fingerprint_id")
        .values_list("fingerprint_id", "fingerprint")
    )
    return [
        FingerprintRow(
            row["fingerprint_id"],
            row["count"],
            row["success"],
            row["failure"],
            row["mean_tokens"],
            row["last"],
            about.get(row["fingerprint_id"], {}),
        )
        for row in counted
    ]
