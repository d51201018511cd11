"""The home page: system health and items that need attention. Reads only; each part requires the permission of its own
page."""

from dataclasses import dataclass, field
from datetime import datetime

from django.http import QueryDict

from context.expectations.policy import VIEW as VIEW_EXPECTATION
from context.feedback.figure_snapshots import snapshots_of
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from nousweb.console.home.activity import AgentActivityRow, Changes, agents_activity, changes_since_yesterday
from nousweb.console.home.context_calls import Calls, context_calls
from nousweb.console.home.memory_growth import GrowthSeries, memory_growth, snapshot_name
from nousweb.console.home.needs_attention import (
    AttentionItem,
    broken_expectation_items,
    dead_job_items,
    index_backlog,
    pending_proposal_items,
    pending_review_items,
)
from nousweb.console.home.period import CHOICES, DEFAULT_DAYS, Period
from nousweb.console.home.referenced_token_share import NAME as USAGE
from nousweb.console.home.system_health import (
    SEVERITY,
    Health,
    embedder_health,
    index_health,
    judge_health,
    worker_health,
)
from nousweb.lib import clock

VIEW_AGENT = "identity.view_agent"


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The contents of the home page; None for parts that the principal may not see."""

    period: Period
    agent: Agent | None
    waiting: list[AttentionItem]
    health: list[Health]
    may_see_waiting: bool
    changes: Changes | None = None
    memory: list[GrowthSeries] = field(default_factory=list)
    memory_at: datetime | None = None
    calls: Calls | None = None
    agents: list[AgentActivityRow] | None = None
    more_agents: bool = False

    @property
    def count(self) -> int:
        """Number of items that need attention."""
        return sum(line.count for line in self.waiting)

    @property
    def unwell(self) -> list[Health]:
        """The parts with a problem, the worst first."""
        return sorted((part for part in self.health if SEVERITY[part.kind]), key=lambda part: -SEVERITY[part.kind])

    @property
    def kind(self) -> str:
        """The badge of the overall health; urgent items that wait for a person need a look too."""
        worst = max((SEVERITY[part.kind] for part in self.health), default=0)
        urgent = any(SEVERITY.get(line.kind) for line in self.waiting)
        return ("ok", "warn", "block")[max(worst, int(urgent))]

    @property
    def word(self) -> str:
        return {"ok": "all well", "warn": "needs a look", "block": "problems"}[self.kind]

    @property
    def fresh(self) -> bool:
        """Whether there are no memories and no calls yet, so that the page shows only the next step."""
        silent = self.calls is None or not (self.calls.calls.now or self.calls.calls.before)
        return self.agents is not None and silent and not any(growth.total for growth in self.memory)

    @property
    def memory_rows(self) -> list[tuple[str, list[int]]]:
        """Numbers added in each hour or day, one per type: the table of the small charts."""
        columns = [growth.added for growth in self.memory]
        return [(row[0][0], [count for _, count, _ in row]) for row in zip(*columns, strict=True)]

    @property
    def query(self) -> str:
        """The query parameter of the agent for links of this page."""
        return f"&agent={self.agent.slug}" if self.agent else ""


def days_of(query: QueryDict) -> int:
    """The period in ?days=; a value that is not offered is ignored."""
    asked = query.get("days", "")
    return int(asked) if asked in {str(days) for days in CHOICES} else DEFAULT_DAYS


def dashboard(by: Principal, query: QueryDict) -> Dashboard:
    """The dashboard of `by` for ?days= and ?agent=. The number of queries does not depend on the amount of data.

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
    waiting: list[AttentionItem] = []
    health = [worker_health(personas if by.agents is None else ())] if by.may(VIEW_AGENT) else []
    may_see_waiting = by.may("identity.view_changeproposal")
    if may_see_waiting:
        waiting += pending_proposal_items(by, agent)
    if by.may("memory.view_memoryreview"):
        waiting += pending_review_items(by, personas, agent)
    if by.may(VIEW_EXPECTATION):
        waiting += broken_expectation_items(by, agent)
    if by.may("memory.view_job"):
        waiting += dead_job_items(personas, agent)
    if by.may("memory.view_searchitem"):
        backlog = index_backlog(personas, agent)
        waiting += backlog.lines
        judge = judge_health(personas, agent, period, limited=by.agents is not None)
        health += [index_health(backlog, agent), embedder_health(), judge]
    agents, more = agents_activity(by, personas, agent, period) if by.may(VIEW_AGENT) else (None, False)
    growth = snapshot_name(period.days)
    snapshots = snapshots_of((growth, USAGE), agent.pk if agent else None, both=len(personas) > 1)
    memory, memory_at = memory_growth(by, personas, agent, period, snapshots.get(growth))
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
        calls=context_calls(personas, agent, period, snapshots.get(USAGE)) if may_see_calls else None,
        agents=agents,
        more_agents=more,
    )
