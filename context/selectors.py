"""Reads that tell how things stand over all apps."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db.models import Count, Min, Q

from context.models import ContextRun
from identity.models import Agent, AuditEvent, ChangeProposal
from identity.policy import Risk
from identity.principal import Principal
from identity.review import RISK_KINDS
from memory.models import Fact
from nousweb.lib import clock

log = structlog.get_logger(__name__)

DAY = timedelta(days=1)
AGENTS_SHOWN = 50
CHANGES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pending proposals of one risk."""

    risk: str
    label: str
    kind: str
    count: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class AgentRow:
    agent: Agent
    waiting: int
    facts: int
    calls: int
    calls_before: int

    @property
    def trend(self) -> int:
        """Context calls more than in the day before."""
        return self.calls - self.calls_before


@dataclass(frozen=True, slots=True)
class Overview:
    """What the home page shows; None where this principal may not look."""

    waiting: list[Waiting] | None = None
    applied: int = 0
    oldest_applied: datetime | None = None
    changes: list[AuditEvent] | None = None
    more_changes: bool = False
    agents: list[AgentRow] | None = None
    more_agents: bool = False

    @property
    def pending(self) -> int:
        return sum(row.count for row in self.waiting or ())


def overview(by: Principal) -> Overview:
    """The state of things for `by`, in six queries at most, however many agents there are."""
    day_ago = clock.now() - DAY
    shown: dict[str, object] = {}
    if by.may("identity.view_changeproposal"):
        found = {
            (row["status"], row["risk"]): row
            for row in ChangeProposal.objects.waiting()
            .order_by()
            .values("status", "risk")
            .annotate(count=Count("pk"), oldest=Min("created_at"))
        }
        empty: dict[str, Any] = {"count": 0, "oldest": None}
        pending: dict[Risk, Any] = {risk: found.get((ChangeProposal.Status.PENDING, risk), empty) for risk in Risk}
        shown["waiting"] = [
            Waiting(risk, risk.label, RISK_KINDS[risk], pending[risk]["count"], pending[risk]["oldest"])
            for risk in reversed(Risk)
        ]
        applied = [row for (status, _), row in found.items() if status == ChangeProposal.Status.APPLIED]
        shown["applied"] = sum(row["count"] for row in applied)
        shown["oldest_applied"] = min((row["oldest"] for row in applied), default=None)
    if by.may("identity.view_auditevent"):
        changes = list(AuditEvent.objects.filter(at__gte=day_ago).defer("before", "after")[: CHANGES_SHOWN + 1])
        shown |= {"changes": changes[:CHANGES_SHOWN], "more_changes": len(changes) > CHANGES_SHOWN}
    if by.may("identity.view_agent"):
        agents = list(Agent.objects.with_waiting()[: AGENTS_SHOWN + 1])
        keys = [agent.pk for agent in agents]
        facts = dict(Fact.objects.active().filter(agent__in=keys).order_by().values_list("agent").annotate(Count("pk")))
        calls = {
            agent: (now, earlier)
            for agent, now, earlier in ContextRun.objects.filter(agent__in=keys, created_at__gte=day_ago - DAY)
            .order_by()
            .values_list("agent")
            .annotate(
                now=Count("pk", filter=Q(created_at__gte=day_ago)),
                earlier=Count("pk", filter=Q(created_at__lt=day_ago)),
            )
        }
        shown["agents"] = [
            AgentRow(agent, agent.waiting, facts.get(agent.pk, 0), *calls.get(agent.pk, (0, 0)))  # type: ignore[attr-defined]
            for agent in agents[:AGENTS_SHOWN]
        ]
        shown["more_agents"] = len(agents) > AGENTS_SHOWN
    return Overview(**shown)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """The background worker as it last reported itself."""

    kind: str
    word: str
    queued: int | None = None


def worker_health() -> WorkerHealth:
    """Read the worker's heartbeat, which costs no query of ours; silence is reported, never raised."""
    try:
        from django_q.status import Stat

        states = Stat.get_all()
    except Exception as error:  # What cannot be read must not take the whole page with it.
        log.warning("worker_state_unreadable", error=str(error))
        return WorkerHealth("warn", "state unknown")
    if not states:
        return WorkerHealth("block", "not seen")
    words = sorted({str(state.status).lower() for state in states})
    return WorkerHealth("ok" if {"idle", "working"} & set(words) else "warn", ", ".join(words))
