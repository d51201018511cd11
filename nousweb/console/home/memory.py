"""How much is remembered, in which state, and how it grows."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, CharField, Count, Model, Q, QuerySet, Value, When

from identity.models import Agent
from identity.principal import Principal
from memory.models import Censor
from nousweb.console.common.charts import Bar, Segment, bars, nice_top, stacked_bar
from nousweb.console.common.memory_types import TYPE_PAGES, State
from nousweb.console.home.period import Period, Trend

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


def memory_growth(by: Principal, personas: tuple[str, ...], agent: Agent | None, period: Period) -> list[Growth]:
    """Each type that `by` may see. Two queries: one counts by state, one reads the two periods."""
    kinds = [kind for kind in KINDS if by.may(kind.permission)]
    if not kinds:
        return []

    def rows(kind: Kind) -> QuerySet[Any]:
        found = kind.model._default_manager.filter(persona__in=personas).order_by()
        return found.filter(agent=agent) if agent else found

    totals: dict[tuple[str, str], int] = {
        (row["what"], row["state"]): row["n"] for row in _all_of(kinds, lambda kind: _by_state(rows(kind), kind))
    }
    added: dict[str, list[tuple[datetime, int]]] = defaultdict(list)
    for row in _all_of(kinds, lambda kind: _by_bucket(rows(kind), kind, period)):
        added[row["what"]].append((row["at"], row["n"]))
    return [_growth(kind, totals, added[kind.key], period) for kind in kinds]


def _all_of(kinds: list[Kind], query: Callable[[Kind], QuerySet[Any]]) -> QuerySet[Any]:
    first, *others = (query(kind) for kind in kinds)
    return first.union(*others, all=True) if others else first


def _by_state(found: QuerySet[Any], kind: Kind) -> QuerySet[Any]:
    *conditions, (last, _, _) = kind.states
    state = Case(
        *(When(condition, then=Value(name)) for name, _, condition in conditions),
        default=Value(last),
        output_field=CharField(),
    )
    return found.annotate(what=Value(kind.key), state=state).values("what", "state").annotate(n=Count("*"))


def _by_bucket(found: QuerySet[Any], kind: Kind, period: Period) -> QuerySet[Any]:
    recent = found.filter(period.within_both(kind.recorded))
    return (
        recent.annotate(what=Value(kind.key), at=period.bucket(kind.recorded))
        .values("what", "at")
        .annotate(n=Count("*"))
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
