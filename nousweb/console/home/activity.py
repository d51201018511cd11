"""Changes since yesterday, and the activity of each agent."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.db.models import BooleanField, Case, Count, F, Max, Value, When
from django.urls import reverse

from context.models import ContextRun
from identity.models import Agent, AuditEvent
from identity.principal import Principal
from memory.models import Fact
from nousweb.console.home.period import DAY, Period, Trend
from nousweb.lib import clock

CHANGES_SHOWN = 8
ACTIONS_SHOWN = 8
AGENTS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Action:
    """One sort of change in the last 24 hours, and how often it was made in the 24 hours before."""

    name: str
    count: Trend
    url: str


@dataclass(frozen=True, slots=True)
class Changes:
    """The last 24 hours of the audit trail."""

    total: Trend
    actions: list[Action]
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
    for row in trail.order_by().values("action", day=_is_today(now)).annotate(n=Count("pk")):
        (today if row["day"] else before)[row["action"]] = row["n"]
    scope = {"agent": agent.slug} if agent else {}
    # The trail is filtered by whole days.
    since = {"since": f"{now - DAY:%Y-%m-%d}"}
    ranked = sorted(today, key=lambda name: (-today[name], name))
    return Changes(
        total=Trend(sum(today.values()), sum(before.values())),
        actions=[
            Action(
                name,
                Trend(today[name], before.get(name, 0)),
                f"{reverse('audit')}?{urlencode({'action': name} | scope | since)}",
            )
            for name in ranked[:ACTIONS_SHOWN]
        ],
        more_actions=max(len(ranked) - ACTIONS_SHOWN, 0),
        # By time, not by key: the index of times keeps this within the day also where an agent was quiet.
        latest=list(trail.filter(at__gte=now - DAY).order_by("-at", "-id").defer("before", "after")[:CHANGES_SHOWN]),
        url=f"{reverse('audit')}?{urlencode(scope | since)}",
    )


def _is_today(now: datetime) -> Case:
    return Case(When(at__gte=now - DAY, then=Value(True)), default=Value(False), output_field=BooleanField())


@dataclass(frozen=True, slots=True)
class AgentActivityRow:
    """One agent with its numbers of facts, of context calls and of pending identity changes."""

    agent: Agent
    waiting: int
    facts: int
    calls: Trend
    last_call: datetime | None


def agents_activity(
    by: Principal, personas: tuple[str, ...], agent: Agent | None, period: Period
) -> tuple[list[AgentActivityRow], bool]:
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
        AgentActivityRow(
            row,
            row.waiting,  # type: ignore[attr-defined]
            facts.get(row.pk, 0),
            Trend(*calls.get(row.pk, (0, 0))[:2]),
            calls[row.pk][2] if row.pk in calls else None,
        )
        for row in agents[:AGENTS_SHOWN]
    ]
    return rows, len(agents) > AGENTS_SHOWN
