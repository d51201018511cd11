"""The page of usage: prompts and their tokens, the growth of memories, and each agent's part in them. Reads only."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from django.db.models import Case, CharField, Count, DateTimeField, F, Max, Q, QuerySet, Value, When
from django.http import QueryDict

from context.feedback.health_score import snapshot_put, snapshots_of
from context.models import ContextRun, FigureSnapshot
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from memory.models import Censor, Fact
from nousweb.console.common import TYPE_PAGES, Segment, stacked_bar
from nousweb.console.home.context_calls import DEFAULT_CHART, Calls, context_calls
from nousweb.console.home.context_calls import NAME as BY_DAY
from nousweb.console.home.period import CHOICES, DEFAULT_DAYS, STAND_IN_END, Period, Trend
from nousweb.lib import clock
from nousweb.lib.prepared_statements import CachedQuery

CENSORS = SimpleNamespace(
    key="censor",
    label="Censors",
    model=Censor,
    recorded="created_at",
    permission="memory.view_censor",
    list_page="agent_censors",
    states=(
        ("off", "seg-8", Q(active=False)),
        ("warn", "seg-3", Q(severity="warn")),
        ("block", "seg-6", Q()),
    ),
)
"""What TypePages say of a type of memory, which censors are not."""
COUNTED_TYPES: tuple[Any, ...] = (*TYPE_PAGES.values(), CENSORS)


@dataclass(frozen=True, slots=True)
class GrowthSeries:
    """Numbers of one type of memory: by state, and added in each hour or day of the period."""

    counted_type: Any
    total: int
    states: list[Segment]
    new: Trend
    added: list[tuple[str, int]]

    @property
    def label(self) -> str:
        return self.counted_type.label


GrowthCounts = tuple[dict[tuple[str, str], int], dict[str, list[tuple[datetime, int]]]]
"""Numbers of each type by state, and added in each hour or day of a period and of the one before."""


def memory_growth(
    by: Principal, personas: tuple[str, ...], agent: Agent | None, period: Period, snapshot: FigureSnapshot | None
) -> tuple[list[GrowthSeries], datetime | None]:
    """The growth of each type that `by` may see, and the time of `snapshot` if it is used. At most one query."""
    types = [kind for kind in COUNTED_TYPES if by.may(kind.permission)]
    if not types:
        return [], None
    totals, added = _read(snapshot) if snapshot else growth_count(types, personas, agent, period)
    return [_growth(kind, totals, added.get(kind.key, []), period) for kind in types], snapshot.at if snapshot else None


def growth_count(types: Sequence[Any], personas: tuple[str, ...], agent: Agent | None, period: Period) -> GrowthCounts:
    """Count by state and by hour or day. One query."""
    totals: dict[tuple[str, str], int] = {}
    added: dict[str, list[tuple[datetime, int]]] = defaultdict(list)
    shape = (tuple(kind.key for kind in types), personas, agent is not None)
    values = {"agent": agent.pk if agent else 0, **period.bounds}
    for what, state, at, number in _counting(period.days).rows(shape, **values):
        if at is None:
            totals[what, state] = number
        else:
            added[what].append((at.replace(tzinfo=UTC), number))
    return totals, added


@cache
def _counting(days: int) -> CachedQuery:
    """The query of a period. A page asks for it each time, and writing it takes longer than its answer."""
    stand_in = Period(days, STAND_IN_END)
    return CachedQuery(partial(_counted_rows, stand_in), agent=-1, **stand_in.bounds)


def _counted_rows(
    period: Period, shape: tuple[tuple[str, ...], tuple[str, ...], bool], agent: int, **moments: datetime
) -> QuerySet[Any, Any]:
    keys, personas, of_agent = shape

    def rows(one: Any) -> QuerySet[Any]:
        found = one.model._default_manager.filter(persona__in=personas).order_by()
        return found.filter(agent=agent) if of_agent else found

    first, *others = (
        part
        for kind in COUNTED_TYPES
        if kind.key in keys
        for part in (_by_bucket(rows(kind), kind, period), _by_state(rows(kind), kind))
    )
    return first.union(*others, all=True)


def growth_refresh(agent: Agent | None, *, both: bool) -> None:
    """Store the counts of a large memory, or of all memories together, for each period that pages offer."""
    personas = tuple(Persona.values) if both else (Persona.ACTOR.value,)
    for days in CHOICES:
        totals, added = growth_count(COUNTED_TYPES, personas, agent, Period(days, clock.now()))
        value = {
            "totals": [[what, state, number] for (what, state), number in totals.items()],
            "added": {what: [[at.isoformat(), number] for at, number in rows] for what, rows in added.items()},
        }
        snapshot_put(snapshot_name(days), agent.pk if agent else None, value, both=both)


def snapshot_name(days: int) -> str:
    return f"growth in {days} days"


def _read(snapshot: FigureSnapshot) -> GrowthCounts:
    totals = {(what, state): number for what, state, number in snapshot.value["totals"]}
    added = {
        what: [(datetime.fromisoformat(at), number) for at, number in rows]
        for what, rows in snapshot.value["added"].items()
    }
    return totals, added


def _by_state(found: QuerySet[Any], one: Any) -> QuerySet[Any]:
    *conditions, (last, _, _) = one.states
    state = Case(
        *(When(condition, then=Value(name)) for name, _, condition in conditions),
        default=Value(last),
        output_field=CharField(),
    )
    counted = found.annotate(what=Value(str(one.key)), state=state).values("what", "state").annotate(n=Count("*"))
    return counted.annotate(at=Value(None, output_field=DateTimeField())).values("what", "state", "at", "n")


def _by_bucket(found: QuerySet[Any], one: Any, period: Period) -> QuerySet[Any]:
    return (
        found.filter(period.within_both(one.recorded))
        .annotate(what=Value(str(one.key)), state=Value(""), at=period.bucket(one.recorded))
        .values("what", "state", "at")
        .annotate(n=Count("*"))
        .values("what", "state", "at", "n")
    )


def _growth(
    one: Any, totals: dict[tuple[str, str], int], added: list[tuple[datetime, int]], period: Period
) -> GrowthSeries:
    counts = [(name, totals.get((one.key, name), 0), colour) for name, colour, _ in one.states]
    found = dict(added)
    series = [found.get(moment, 0) for moment in period.moments]
    return GrowthSeries(
        counted_type=one,
        total=sum(count for _, count, _ in counts),
        states=stacked_bar([state for state in counts if state[1]], 100.0, 6),
        new=Trend(sum(series), sum(found.get(moment - period.length, 0) for moment in period.moments)),
        added=[(period.name(moment), count) for moment, count in zip(period.moments, series, strict=True)],
    )


AGENTS_SHOWN = 20
VIEW_AGENT = "identity.view_agent"


@dataclass(frozen=True, slots=True)
class Usage:
    """The contents of the page; empty for parts that the principal may not see."""

    period: Period
    agent: Agent | None
    calls: Calls
    memory: list[GrowthSeries] = field(default_factory=list)
    memory_at: datetime | None = None
    memory_of: str = ""
    """Whose memories are counted, as a sentence, where a list has those of one persona."""
    agents: list[dict[str, Any]] = field(default_factory=list)
    more_agents: bool = False

    @property
    def memory_heads(self) -> str:
        """The heads of that table, for the tag `heads`."""
        return "|".join([self.period.step_label.capitalize(), *(f"{growth.label}:num" for growth in self.memory)])

    @property
    def memory_rows(self) -> list[tuple[str, list[int]]]:
        """Numbers added in each hour or day, one per type: the table of the small charts."""
        rows = zip(*(growth.added for growth in self.memory), strict=True)
        return [(row[0][0], [count for _, count in row]) for row in rows]

    @property
    def query(self) -> str:
        """The query parameter of the agent for links of this page."""
        return f"&agent={self.agent.slug}" if self.agent else ""

    @property
    def address(self) -> str:
        """The address of this page without the chart."""
        return f"?days={self.period.days}{self.query}"

    @property
    def period_query(self) -> str:
        """Those of the agent and the chart, for links to other periods."""
        key = self.calls.drawing.key
        return self.query if key == DEFAULT_CHART else f"{self.query}&chart={key}"


def agents_activity(by: Principal, personas: tuple[str, ...], period: Period) -> tuple[list[dict[str, Any]], bool]:
    """The agents with the most pending changes, then by name; and whether there are more. Three queries."""
    found = Agent.objects.visible_to(by).with_waiting(by).order_by(F("waiting").desc(), "slug")
    agents = list(found[: AGENTS_SHOWN + 1])
    keys = [row.pk for row in agents]
    held = Fact.objects.current() if by.may("memory.view_fact") else Fact.objects.none()
    held = held.filter(agent__in=keys, persona__in=personas).order_by()
    facts = dict(held.values_list("agent").annotate(n=Count("*")))
    runs = ContextRun.objects.filter(period.within_both("created_at"), agent__in=keys, persona__in=personas)
    calls: dict[int, tuple[int, int, datetime | None]] = {
        key: (now, before, last)
        for key, now, before, last in runs.order_by()
        .values_list("agent")
        .annotate(
            now=Count("created_at", filter=period.within("created_at")),
            before=Count("created_at", filter=period.within_before("created_at")),
            last=Max("created_at"),
        )
    }
    rows = [
        {
            "agent": row,
            "waiting": row.waiting,  # type: ignore[attr-defined]
            "facts": facts.get(row.pk, 0),
            "calls": Trend(*calls.get(row.pk, (0, 0))[:2]),
            "last_call": calls[row.pk][2] if row.pk in calls else None,
        }
        for row in agents[:AGENTS_SHOWN]
    ]
    return rows, len(agents) > AGENTS_SHOWN


def usage(by: Principal, query: QueryDict) -> Usage:
    """The usage that `by` may see, for ?days=, ?agent= and ?chart=. The number of queries does not depend on the
    amount of data.

    Raises NotFound for an unknown agent, and NotAllowed if `by` may not see agents.
    """
    agent = None
    if slug := query.get("agent", ""):
        by.require(VIEW_AGENT)
        agent = agent_get(slug, by)
    elif by.agents is not None:
        # A person who is limited to some agents sees one of them at a time: no figure covers all agents.
        agent = Agent.objects.visible_to(by).first() or Agent(pk=0, slug="none", name="no agent")
    # A period that is not offered is ignored.
    days = {str(days): days for days in CHOICES}.get(query.get("days", ""), DEFAULT_DAYS)
    period = Period(days, clock.now())
    personas = tuple(Persona.values) if by.may(VIEW_SUBCONSCIOUS) else (Persona.ACTOR.value,)
    agents, more = agents_activity(by, personas, period) if by.may(VIEW_AGENT) and agent is None else ([], False)
    growth = snapshot_name(period.days)
    snapshots = snapshots_of((growth, BY_DAY), agent.pk if agent else None, both=len(personas) > 1)
    memory, memory_at = memory_growth(by, personas, agent, period, snapshots.get(growth))
    return Usage(
        period=period,
        agent=agent,
        calls=context_calls(personas, agent, period, snapshots.get(BY_DAY), query.get("chart", "")),
        memory=memory,
        memory_at=memory_at,
        memory_of="Actor and subconscious together." if len(personas) > 1 else "",
        agents=agents,
        more_agents=more,
    )
