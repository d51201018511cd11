"""The home page: is everything well, and what needs me? Reads only; each part by the right that its own page asks."""

from dataclasses import dataclass, field
from datetime import datetime

from django.http import QueryDict

from context.expectations.policy import VIEW as VIEW_EXPECTATION
from context.feedback.figure_snapshots import snapshots_of
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from nousweb.console.home.activity import AgentRow, Changes, agents_activity, changes_since_yesterday
from nousweb.console.home.context_calls import Calls, context_calls
from nousweb.console.home.health import SEVERITY, Health, embedder_health, index_health, judge_health, worker_health
from nousweb.console.home.memory_growth import Growth, memory_growth, snapshot_name
from nousweb.console.home.needs_attention import (
    Waiting,
    expectations_broken,
    index_backlog,
    proposals_waiting,
    questions_waiting,
    runs_given_up,
)
from nousweb.console.home.period import CHOICES, DEFAULT_DAYS, Period
from nousweb.console.home.reference_shares import NAME as USAGE
from nousweb.lib import clock

VIEW_AGENT = "identity.view_agent"


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What the home page shows; None where this principal may not look."""

    period: Period
    agent: Agent | None
    waiting: list[Waiting]
    health: list[Health]
    may_see_waiting: bool
    changes: Changes | None = None
    memory: list[Growth] = field(default_factory=list)
    memory_at: datetime | None = None
    calls: Calls | None = None
    agents: list[AgentRow] | None = None
    more_agents: bool = False

    @property
    def count(self) -> int:
        """How many things wait for a person."""
        return sum(line.count for line in self.waiting)

    @property
    def unwell(self) -> list[Health]:
        """The parts that do not work as they should, the worst first."""
        return sorted((part for part in self.health if SEVERITY[part.kind]), key=lambda part: -SEVERITY[part.kind])

    @property
    def kind(self) -> str:
        """Badge of the whole."""
        worst = max((SEVERITY[part.kind] for part in self.health), default=0)
        return ("ok", "warn", "block")[worst]

    @property
    def word(self) -> str:
        return {"ok": "all well", "warn": "needs a look", "block": "problems"}[self.kind]

    @property
    def fresh(self) -> bool:
        """Whether nothing was ever written or asked, so that only the next step is worth showing."""
        silent = self.calls is None or not (self.calls.calls.now or self.calls.calls.before)
        return self.agents is not None and silent and not any(growth.total for growth in self.memory)

    @property
    def memory_rows(self) -> list[tuple[str, list[int]]]:
        """What came in each hour or day, a number a type: the table behind the small charts."""
        columns = [growth.added for growth in self.memory]
        return [(row[0][0], [count for _, count, _ in row]) for row in zip(*columns, strict=True)]

    @property
    def query(self) -> str:
        """What the addresses of this page keep of the agent."""
        return f"&agent={self.agent.slug}" if self.agent else ""


def days_of(query: QueryDict) -> int:
    """The period that ?days= asks for; one that is not offered is ignored."""
    asked = query.get("days", "")
    return int(asked) if asked in {str(days) for days in CHOICES} else DEFAULT_DAYS


def dashboard(by: Principal, query: QueryDict) -> Dashboard:
    """How things stand for `by`, in ?days= and for ?agent=, in as many queries however much there is.

    Raises NotFound for an agent that is not there and NotAllowed where agents may not be seen.
    """
    agent = None
    if slug := query.get("agent", ""):
        by.require(VIEW_AGENT)
        agent = agent_get(slug, by)
    elif by.agents is not None:
        # Whoever is limited to some agents sees one of them at a time: no figure is of all agents.
        agent = Agent.objects.seen_by(by).first() or Agent(pk=0, slug="none", name="no agent")
    period = Period(days_of(query), clock.now())
    personas = tuple(Persona.values) if by.may(VIEW_SUBCONSCIOUS) else (Persona.ACTOR.value,)
    waiting: list[Waiting] = []
    health = [worker_health(personas if by.agents is None else ())] if by.may(VIEW_AGENT) else []
    may_see_waiting = by.may("identity.view_changeproposal")
    if may_see_waiting:
        waiting += proposals_waiting(by, agent)
    if by.may("memory.view_memoryreview"):
        waiting += questions_waiting(personas, agent)
    if by.may(VIEW_EXPECTATION):
        waiting += expectations_broken(by, agent)
    if by.may("memory.view_job"):
        waiting += runs_given_up(personas, agent)
    if by.may("memory.view_searchitem"):
        backlog = index_backlog(personas, agent)
        waiting += backlog.lines
        judge = judge_health(personas, agent, period, limited=by.agents is not None)
        health += [index_health(backlog, agent), embedder_health(), judge]
    agents, more = agents_activity(by, personas, agent, period) if by.may(VIEW_AGENT) else (None, False)
    growth = snapshot_name(period.days)
    kept = snapshots_of((growth, USAGE), agent.pk if agent else None, both=len(personas) > 1)
    memory, memory_at = memory_growth(by, personas, agent, period, kept.get(growth))
    may_see_calls = by.may("context.view_contextrun")
    return Dashboard(
        period=period,
        agent=agent,
        waiting=waiting,
        health=health,
        may_see_waiting=may_see_waiting,
        changes=changes_since_yesterday(by, agent) if by.may("identity.view_auditevent") else None,
        memory=memory,
        memory_at=memory_at,
        calls=context_calls(personas, agent, period, kept.get(USAGE)) if may_see_calls else None,
        agents=agents,
        more_agents=more,
    )
