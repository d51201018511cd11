"""The page of usage: prompts and their tokens, the growth of memories, and each agent's part in them. Reads only."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Max
from django.http import QueryDict

from context.feedback.health_score import snapshots_of
from context.models import ContextRun
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from memory.models import Fact
from nousweb.console.home.context_calls import DEFAULT_CHART, Calls, context_calls
from nousweb.console.home.context_calls import NAME as BY_DAY
from nousweb.console.home.memory_growth import GrowthSeries, memory_growth, snapshot_name
from nousweb.console.home.period import CHOICES, DEFAULT_DAYS, Period, Trend
from nousweb.lib import clock

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
        columns = [growth.added for growth in self.memory]
        return [(row[0][0], [count for _, count in row]) for row in zip(*columns, strict=True)]

    @property
    def query(self) -> str:
        """The query parameter of the agent for links of this page."""
        return f"&agent={self.agent.slug}" if self.agent else ""

    @property
    def address(self) -> str:
        """The address of this page without the chart; "" where none is drawn."""
        return f"?days={self.period.days}{self.query}" if self.calls.drawn else ""

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
    facts: dict[int, int] = {}
    if by.may("memory.view_fact"):
        held = Fact.objects.current().filter(agent__in=keys, persona__in=personas)
        facts = dict(held.order_by().values_list("agent").annotate(n=Count("*")))
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


def days_of(query: QueryDict) -> int:
    """The period in ?days=; a value that is not offered is ignored."""
    asked = query.get("days", "")
    return int(asked) if asked in {str(days) for days in CHOICES} else DEFAULT_DAYS


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
    period = Period(days_of(query), clock.now())
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
