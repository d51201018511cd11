"""How much is remembered, in which state, and how it grows."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, CharField, Count, DateTimeField, Model, Q, QuerySet, Value, When

from context.feedback.figure_snapshots import snapshot_put
from context.models import FigureSnapshot
from identity.models import Agent, Persona
from identity.principal import Principal
from memory.models import Censor
from nousweb.console.common.charts import Bar, Segment, bars, nice_top, stacked_bar
from nousweb.console.common.memory_types import TYPE_PAGES, State
from nousweb.console.home.period import CHOICES, Period, Trend
from nousweb.lib import clock

SPARK_HEIGHT = 28.0
WHOLE = 100.0


@dataclass(frozen=True, slots=True)
class Kind:
    """What is counted: its table, when a row came to be known, its states and the page that lists it."""

    key: str
    label: str
    model: type[Model]
    recorded: str
    permission: str
    page: str
    states: tuple[State, ...]


KINDS = (
    *(
        Kind(key, one.label, one.model, one.recorded, one.permission, one.list_page, one.states)
        for key, one in TYPE_PAGES.items()
    ),
    Kind("censor", "Censors", Censor, "created_at", "memory.view_censor", "agent_censors", (
        ("off", "seg-8", Q(active=False)),
        ("warn", "seg-3", Q(severity="warn")),
        ("block", "seg-4", Q()),
    )),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Growth:
    """One type of memory: how many there are, by state, and how many came in each hour or day of the period."""

    kind: Kind
    total: int
    states: list[Segment]
    new: Trend
    added: list[tuple[str, int, Bar]]

    @property
    def most(self) -> int:
        return max((count for _, count, _ in self.added), default=0)

    @property
    def label(self) -> str:
        return self.kind.label


@dataclass(frozen=True, slots=True)
class GrowthCounts:
    """What there is of each type by state, and what came in each hour or day of a period and of the one before.

    `at` is when a large memory was counted; None for now.
    """

    totals: dict[tuple[str, str], int]
    added: dict[str, list[tuple[datetime, int]]]
    at: datetime | None = None


def memory_growth(
    by: Principal, personas: tuple[str, ...], agent: Agent | None, period: Period, kept: FigureSnapshot | None
) -> tuple[list[Growth], datetime | None]:
    """Each type that `by` may see, and when it was counted, where `kept` has figures of earlier. At most one query."""
    kinds = [kind for kind in KINDS if by.may(kind.permission)]
    if not kinds:
        return [], None
    counts = _read(kept) if kept else growth_counted(kinds, personas, agent, period)
    return [_growth(kind, counts.totals, counts.added.get(kind.key, []), period) for kind in kinds], counts.at


def growth_counted(
    kinds: Sequence[Kind], personas: tuple[str, ...], agent: Agent | None, period: Period
) -> GrowthCounts:
    """Count by state and by hour or day. One query."""

    def rows(kind: Kind) -> QuerySet[Any]:
        found = kind.model._default_manager.filter(persona__in=personas).order_by()
        return found.filter(agent=agent) if agent else found

    # The moments of the first part say how those of all are read.
    first, *others = (
        part for kind in kinds for part in (_by_bucket(rows(kind), kind, period), _by_state(rows(kind), kind))
    )
    totals: dict[tuple[str, str], int] = {}
    added: dict[str, list[tuple[datetime, int]]] = defaultdict(list)
    for row in first.union(*others, all=True):
        if row["at"] is None:
            totals[row["what"], row["state"]] = row["n"]
        else:
            added[row["what"]].append((row["at"], row["n"]))
    return GrowthCounts(totals, added)


def growth_keep(agent: Agent | None, *, both: bool) -> None:
    """Count a large memory, or all memories together, for the pages to come: for each period that is offered."""
    personas = tuple(Persona.values) if both else (Persona.ACTOR.value,)
    for days in CHOICES:
        counts = growth_counted(KINDS, personas, agent, Period(days, clock.now()))
        value = {
            "totals": [[what, state, number] for (what, state), number in counts.totals.items()],
            "added": {what: [[at.isoformat(), number] for at, number in rows] for what, rows in counts.added.items()},
        }
        snapshot_put(snapshot_name(days), agent.pk if agent else None, value, both=both)


def snapshot_name(days: int) -> str:
    return f"growth in {days} days"


def _read(kept: FigureSnapshot) -> GrowthCounts:
    totals = {(what, state): number for what, state, number in kept.value["totals"]}
    added = {
        what: [(datetime.fromisoformat(at), number) for at, number in rows]
        for what, rows in kept.value["added"].items()
    }
    return GrowthCounts(totals, added, kept.at)


def _by_state(found: QuerySet[Any], kind: Kind) -> QuerySet[Any]:
    *conditions, (last, _, _) = kind.states
    state = Case(
        *(When(condition, then=Value(name)) for name, _, condition in conditions),
        default=Value(last),
        output_field=CharField(),
    )
    nothing = Value(None, output_field=DateTimeField())
    counted = found.annotate(what=Value(kind.key), state=state).values("what", "state").annotate(n=Count("*"))
    return counted.annotate(at=nothing).values("what", "state", "at", "n")


def _by_bucket(found: QuerySet[Any], kind: Kind, period: Period) -> QuerySet[Any]:
    recent = found.filter(period.within_both(kind.recorded))
    return (
        recent.annotate(what=Value(kind.key), state=Value(""), at=period.bucket(kind.recorded))
        .values("what", "state", "at")
        .annotate(n=Count("*"))
        .values("what", "state", "at", "n")
    )


def _growth(
    kind: Kind, totals: dict[tuple[str, str], int], added: list[tuple[datetime, int]], period: Period
) -> Growth:
    counts = [(name, totals.get((kind.key, name), 0), colour) for name, colour, _ in kind.states]
    series = [int(value) for value in period.spread(added)]
    before = sum(int(value) for value in period.spread_before(added))
    drawn = bars(series, SPARK_HEIGHT, top=nice_top(max(series)), gap=0.2)
    return Growth(
        kind=kind,
        total=sum(count for _, count, _ in counts),
        states=stacked_bar([state for state in counts if state[1]], WHOLE, 6),
        new=Trend(sum(series), before),
        added=[
            (period.name(moment), count, bar) for moment, count, bar in zip(period.moments, series, drawn, strict=True)
        ],
    )
