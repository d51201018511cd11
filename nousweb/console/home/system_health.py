"""System health on the home page: the worker, the search index, the embedding model, the judge."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db.models import Count, F, Q, Sum
from django.urls import reverse

from identity.models import Agent, Persona
from memory.embedding.registry import configured_name
from memory.jobs import messages_waiting
from memory.judge.model_judge import today_start
from memory.models import EmbeddingModel, JudgeCall, JudgeTask
from nousweb.console.home.needs_attention import IndexBacklog
from nousweb.console.home.period import Period, Trend
from nousweb.lib import clock

log = structlog.get_logger(__name__)

LATE = timedelta(minutes=5)
"""Work that waits longer than this is late: the worker takes up new work within seconds."""
ERROR_CHARACTERS = 200
SEVERITY = {"neutral": 0, "ok": 0, "warn": 1, "block": 2}


@dataclass(frozen=True, slots=True)
class Health:
    """One part: its state as a badge, a sentence in words, and the trend where it has one."""

    name: str
    kind: str
    word: str
    detail: str
    at: datetime | None = None
    url: str = ""
    trend: Trend | None = None
    unit: str = ""


def worker_health(personas: tuple[str, ...]) -> Health:
    """The background worker's heartbeat, which costs no query, and its queue, which costs one.

    Silence is reported, never raised. All personas share the queue, so its length is for those who may see each.
    """
    try:
        count, oldest = messages_waiting()
    except Exception as error:  # A Redis that cannot be reached must not take the whole page with it.
        log.warning("queue_unreadable", error=str(error))
        return Health("Background worker", "block", "queue unreachable", "Work is queued in the database")
    late = oldest is not None and oldest < clock.now() - LATE
    detail = f"{count:,} {'task' if count == 1 else 'tasks'} queued" if count else "Nothing queued"
    if Persona.SUBCONSCIOUS not in personas:
        detail, oldest = "", None
    try:
        from django_q.status import Stat

        states = sorted({str(stat.status).lower() for stat in Stat.get_all()})
    except Exception as error:
        log.warning("worker_state_unreadable", error=str(error))
        return Health("Background worker", "warn", "state unknown", detail, oldest)
    if not states:
        return Health("Background worker", "block", "no heartbeat", detail, oldest)
    well = bool({"idle", "working"} & set(states)) and not late
    return Health(
        "Background worker", "ok" if well else "warn", "behind" if late else ", ".join(states), detail, oldest
    )


def index_health(backlog: IndexBacklog, agent: Agent | None) -> Health:
    """The state of the search index."""
    url = reverse("agent_index", args=[agent.slug]) if agent else ""
    waits = f"{backlog.pending:,} memories have no vector yet"
    if backlog.pending == 1:
        waits = "1 memory has no vector yet"
    since = backlog.oldest_pending
    if backlog.failed:
        failed = f"{backlog.failed:,} failed, {backlog.pending:,} pending"
        return Health("Search index", "block", "incomplete", failed, since, url)
    if not backlog.pending:
        return Health("Search index", "ok", "complete", "Every memory can be found", None, url)
    late = since is not None and since < clock.now() - LATE
    return Health("Search index", "warn" if late else "ok", "behind" if late else "indexing", waits, since, url)


def embedder_health() -> Health:
    """The model of the index, and whether the index is moving to another one or the settings name another."""
    models = {model.state: model for model in EmbeddingModel.objects.all()}
    active = models.get(EmbeddingModel.State.ACTIVE)
    building = models.get(EmbeddingModel.State.BUILDING)
    if active is None:
        return Health(
            "Embedding model", "neutral", "not used yet", f"{settings.EMBEDDER}, used from the first memory on"
        )
    detail = f"{active.name}, {active.dimension:,} dimensions"
    if building:
        return Health("Embedding model", "warn", "moving", f"{detail}; moving to {building.name}", building.since)
    if active.name != configured_name():
        return Health(
            "Embedding model", "warn", "differs from settings", f"{detail}; the settings name {configured_name()}"
        )
    return Health("Embedding model", "ok", "in use", detail)


def judge_health(personas: tuple[str, ...], agent: Agent | None, period: Period, *, limited: bool) -> Health:
    """The judge's spending of today's budget, which all agents share, and its errors in the period.

    For a person `limited` to some agents only the spending for `agent`.
    """
    today = today_start()
    calls = JudgeCall.objects.filter(created_at__gte=min(today, period.earlier)).order_by()
    spent = F("tokens_in") + F("tokens_out")
    seen = Q(persona__in=personas)
    mine = seen & (Q(agent=agent) if agent else Q())
    now, before = period.within("created_at") & mine, period.within_before("created_at") & mine
    # The playground spends of the same budget, and its failures are no judge's.
    asked = now & ~Q(task=JudgeTask.CHAT)
    found = calls.aggregate(
        today=Sum(spent, filter=Q(created_at__gte=today) & (mine if limited else seen)),
        all_today=Sum(spent, filter=Q(created_at__gte=today)),
        now=Sum(spent, filter=now),
        before=Sum(spent, filter=before),
        questions=Count("pk", filter=asked),
        errors=Count("pk", filter=asked & ~Q(error="")),
    )
    spent_today, limit = found["today"] or 0, settings.JUDGE_DAILY_TOKENS
    trend = Trend(found["now"] or 0, found["before"] or 0)
    if settings.JUDGE == "none" and not found["questions"]:
        return Health("Judge", "neutral", "off", "People resolve all memory reviews")
    of_limit = f" of {limit:,} ({round(100 * spent_today / limit)} %)" if limit else ""
    questions = f"{found['questions']:,} call{'' if found['questions'] == 1 else 's'}"
    detail = f"{spent_today:,}{of_limit} tokens today; {questions} in the {period.label}"
    # The budget is shared: that it is spent is for everybody, what the other persona spent of it is not.
    if limit and (found["all_today"] or 0) >= limit:
        return Health("Judge", "warn", "budget used up", detail, None, "", trend, "tokens")
    if not found["errors"]:
        return Health("Judge", "ok", "working", detail, None, "", trend, "tokens")
    last = calls.filter(asked).exclude(error="").order_by("-created_at").values("error", "created_at").first()
    if last is None:
        return Health("Judge", "ok", "working", detail, None, "", trend, "tokens")
    error = last["error"][:ERROR_CHARACTERS]
    detail += f"; {found['errors']:,} failed, the last with: {error}"
    return Health("Judge", "warn", "errors", detail, last["created_at"], "", trend, "tokens")
