"""The home page: system health and items that need attention. Reads only; each part requires the permission of its own
page."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import BooleanField, Case, Count, F, Max, Value, When
from django.http import QueryDict
from django.urls import reverse

from context.expectations.policy import VIEW as VIEW_EXPECTATION
from context.feedback.figure_snapshots import snapshots_of
from context.models import ContextRun
from identity.models import Agent, AuditEvent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from memory.models import Fact
from nousweb.console.home.context_calls import NAME as USAGE
from nousweb.console.home.context_calls import Calls, context_calls
from nousweb.console.home.memory_growth import GrowthSeries, memory_growth, snapshot_name
from nousweb.console.home.period import CHOICES, DAY, DEFAULT_DAYS, Period, Trend
from nousweb.console.home.system_health import (
    SEVERITY,
    AttentionItem,
    Health,
    broken_expectation_items,
    dead_job_items,
    embedder_health,
    index_backlog,
    index_health,
    judge_health,
    pending_proposal_items,
    pending_review_items,
    worker_health,
)
from nousweb.lib import clock

CHANGES_SHOWN = 8
ACTIONS_SHOWN = 8
AGENTS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Changes:
    """The last 24 hours of the audit trail."""

    total: Trend
    actions: list[dict[str, Any]]
    more_actions: int
    latest: list[AuditEvent]
    url: str


def changes_since_yesterday(by: Principal, agent: Agent | None) -> Changes:
    """Counts by action and the latest records that `by` may see. Two queries, both within two days of the trail."""
    now = clock.now()
    trail = AuditEvent.objects.visible_to(by).filter(at__gte=now - 2 * DAY, at__lte=now)
    if agent:
        trail = trail.filter(agent=agent)
    today: dict[str, int] = {}
    before: dict[str, int] = {}
    is_today = Case(When(at__gte=now - DAY, then=Value(True)), default=Value(False), output_field=BooleanField())
    for row in trail.order_by().values("action", day=is_today).annotate(n=Count("pk")):
        (today if row["day"] else before)[row["action"]] = row["n"]
    scope = {"agent": agent.slug} if agent else {}
    # The trail is filtered by whole days.
    since = {"since": f"{now - DAY:%Y-%m-%d}"}
    ranked = sorted(today, key=lambda name: (-today[name], name))
    return Changes(
        total=Trend(sum(today.values()), sum(before.values())),
        actions=[
            {
                "name": name,
                "count": Trend(today[name], before.get(name, 0)),
                "url": f"{reverse('audit')}?{urlencode({'action': name} | scope | since)}",
            }
            for name in ranked[:ACTIONS_SHOWN]
        ],
        more_actions=max(len(ranked) - ACTIONS_SHOWN, 0),
        # By time, not by key: the index of times keeps this within the day also where an agent was quiet.
        latest=list(trail.filter(at__gte=now - DAY).order_by("-at", "-id").defer("before", "after")[:CHANGES_SHOWN]),
        url=f"{reverse('audit')}?{urlencode(scope | since)}",
    )


def agents_activity(
    by: Principal, personas: tuple[str, ...], agent: Agent | None, period: Period
) -> tuple[list[dict[str, Any]], bool]:
    """The agents with the most pending changes, then by name; and whether there are more. Three queries."""
    found = Agent.objects.visible_to(by).with_waiting(by).order_by(F("waiting").desc(), "slug")
    agents = list(found.filter(pk=agent.pk) if agent else found[: AGENTS_SHOWN + 1])
    keys = [row.pk for row in agents]
    facts: dict[int, int] = {}
    if by.may("memory.view_fact"):
        held = Fact.objects.current().filter(agent__in=keys, persona__in=personas)
        facts = dict(held.order_by().values_list("agent").annotate(n=Count("*")))
    calls: dict[int, tuple[int, int, datetime | None]] = {}
    if by.may("context.view_contextrun"):
        runs = ContextRun.objects.filter(period.within_both("created_at"), agent__in=keys, persona__in=personas)
        calls = {
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
    agents: list[dict[str, Any]] | None = None
    more_agents: bool = False

    @property
    def count(self) -> int:
        """Number of items that need attention."""
        return sum(line.count for line in self.waiting)

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
