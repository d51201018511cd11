"""System health on the home page: the worker, the search index, the embedding model, the judge."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db.models import Count, F, Min, Q, Sum
from django.urls import reverse

from context.expectations.services import broken_results
from context.models import ExpectationResult
from identity.models import Agent, ChangeProposal, Persona
from identity.policy.sections import Risk
from identity.principal import Principal
from identity.services.inbox_items import not_snoozed
from memory.embedding.registry import configured_name
from memory.jobs import messages_waiting
from memory.judge.model_judge import today_start
from memory.models import EmbeddingModel, IndexStatus, Job, JudgeCall, JudgeTask, MemoryReview, SearchItem
from nousweb.console.home.period import Period, Trend
from nousweb.console.inbox.filter import RISK_KINDS, InboxFilter
from nousweb.lib import clock

AGENTS_NAMED = 5
"""Maximum number of agents with failed rows that get a line of their own."""


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """One line: `count` of `what`, the oldest since `oldest`, handled at `url`. `kind` and `word` are its badge."""

    kind: str
    word: str
    count: int
    what: str
    oldest: datetime | None
    url: str


def pending_proposal_items(by: Principal, agent: Agent | None) -> list[AttentionItem]:
    """Pending changes of identities that `by` has not snoozed, the riskiest first, and those that agents
    applied themselves."""
    found = ChangeProposal.objects.visible_to(by).waiting().filter(not_snoozed(int(by.id))).order_by()
    if agent:
        found = found.filter(agent=agent)
    rows: dict[Any, Any] = {
        (row["status"], row["risk"]): row
        for row in found.values("status", "risk").annotate(count=Count("pk"), oldest=Min("created_at"))
    }
    slug = agent.slug if agent else ""

    lines = [
        AttentionItem(
            RISK_KINDS[risk],
            f"{risk.label} risk",
            row["count"],
            "identity change pending" if row["count"] == 1 else "identity changes pending",
            row["oldest"],
            InboxFilter("identity", agent=slug, risk=risk).url(),
        )
        for risk in reversed(Risk)
        if (row := rows.get((ChangeProposal.Status.PENDING, risk)))
    ]
    applied = [row for (status, _), row in rows.items() if status == ChangeProposal.Status.APPLIED]
    if applied:
        count = sum(row["count"] for row in applied)
        lines.append(
            AttentionItem(
                "neutral",
                "Applied",
                count,
                "identity change applied by an agent, to look over"
                if count == 1
                else "identity changes applied by agents, to look over",
                min(row["oldest"] for row in applied),
                InboxFilter("applied", agent=slug).url(),
            )
        )
    return lines


REVIEWS = (
    (
        MemoryReview.Kind.QUARANTINED,
        "block",
        "a text that reads like an instruction",
        "texts that read like instructions",
    ),
    (MemoryReview.Kind.ESCALATION, "block", "an escalated censor", "escalated censors"),
    (MemoryReview.Kind.CONTRADICTION, "warn", "a possible contradiction", "possible contradictions"),
    (MemoryReview.Kind.RELEARNED, "warn", "a fact learned again", "facts learned again after being marked as wrong"),
    (MemoryReview.Kind.DUPLICATE, "neutral", "a possible duplicate", "possible duplicates"),
    (MemoryReview.Kind.LOW_CONFIDENCE, "neutral", "an uncertain fact", "uncertain facts"),
    (MemoryReview.Kind.REPEATED, "accent", "a sentence about another subject", "sentences about another subject"),
    (MemoryReview.Kind.SAME_SUBJECT, "accent", "two possible names of one subject", "possible names of one subject"),
    (MemoryReview.Kind.ATTRIBUTE, "accent", "how many values an attribute has", "how many values attributes have"),
    (MemoryReview.Kind.COMPACTION, "neutral", "a subject with many facts", "subjects with many facts"),
)
"""Kind of review, its badge, and its subject in singular and plural; the most urgent first."""


def pending_review_items(by: Principal, personas: tuple[str, ...], agent: Agent | None) -> list[AttentionItem]:
    """Pending reviews of memories that `by` has not snoozed, by kind."""
    found = MemoryReview.objects.pending().filter(not_snoozed(int(by.id)), persona__in=personas).order_by()
    if agent:
        found = found.filter(agent=agent)
    rows = {row["kind"]: row for row in found.values("kind").annotate(count=Count("pk"), oldest=Min("created_at"))}
    slug = agent.slug if agent else ""
    return [
        AttentionItem(
            badge,
            kind.label,
            row["count"],
            f"review of {one}" if row["count"] == 1 else f"reviews of {many}",
            row["oldest"],
            InboxFilter("reviews", agent=slug, kind=kind.value).url(),
        )
        for kind, badge, one, many in REVIEWS
        if (row := rows.get(kind))
    ]


def dead_job_items(personas: tuple[str, ...], agent: Agent | None) -> list[AttentionItem]:
    """Jobs that failed too often and were given up."""
    dead = Job.objects.filter(status=Job.Status.DEAD, persona__in=personas)
    if agent:
        dead = dead.filter(agent=agent)
    found = dead.aggregate(count=Count("pk"), oldest=Min("finished_at"))
    if not found["count"]:
        return []
    what = "job failed permanently" if found["count"] == 1 else "jobs failed permanently"
    url = f"{reverse('lifecycle')}?status={Job.Status.DEAD}"
    return [AttentionItem("block", "Failed permanently", found["count"], what, found["oldest"], url)]


def broken_expectation_items(by: Principal, agent: Agent | None) -> list[AttentionItem]:
    """Expectations that failed or could not run, by agent."""
    broken = broken_results(by).order_by()
    if agent:
        broken = broken.filter(agent=agent)
    rows = broken.values("agent__slug", "agent__name", "state").annotate(count=Count("pk"), oldest=Min("since"))
    return [
        AttentionItem(
            "block",
            "Could not run" if row["state"] == ExpectationResult.State.ERROR else "Broken",
            row["count"],
            f"expectation{'' if row['count'] == 1 else 's'} of {row['agent__name']}",
            row["oldest"],
            f"{reverse('agent_expectations', args=[row['agent__slug']])}?state={row['state']}",
        )
        for row in sorted(rows, key=lambda row: (row["state"] != ExpectationResult.State.FAILED, -row["count"]))
    ][: 2 * AGENTS_NAMED]


@dataclass(frozen=True, slots=True)
class IndexBacklog:
    """Rows of the search index that are not ready, over the requested agents."""

    pending: int
    oldest_pending: datetime | None
    failed: int
    lines: list[AttentionItem]


def index_backlog(personas: tuple[str, ...], agent: Agent | None) -> IndexBacklog:
    """Memories that are not indexed yet, or failed to be. Reads only the rows that are not ready."""
    rows = (
        SearchItem.objects.filter(status__in=(IndexStatus.PENDING, IndexStatus.FAILED), persona__in=personas)
        .order_by()
        .values("status", "agent__slug", "agent__name")
        .annotate(count=Count("pk"), oldest=Min("recorded_at"))
    )
    if agent:
        rows = rows.filter(agent=agent)
    found = list(rows)
    pending = [row for row in found if row["status"] == IndexStatus.PENDING]
    failed = sorted((row for row in found if row["status"] == IndexStatus.FAILED), key=lambda row: -row["count"])
    return IndexBacklog(
        pending=sum(row["count"] for row in pending),
        oldest_pending=min((row["oldest"] for row in pending), default=None),
        failed=sum(row["count"] for row in failed),
        lines=list(_failed_lines(failed, suffix="?persona=subconscious" if len(personas) > 1 else "")),
    )


def _failed_lines(failed: list[Any], suffix: str) -> Iterator[AttentionItem]:
    for row in failed[:AGENTS_NAMED]:
        noun = "memory" if row["count"] == 1 else "memories"
        url = reverse("agent_index", args=[row["agent__slug"]]) + suffix
        what = f"{noun} of {row['agent__name']} could not be indexed"
        yield AttentionItem("block", "Failed", row["count"], what, row["oldest"], url)
    rest = failed[AGENTS_NAMED:]
    if rest:
        count, oldest = sum(row["count"] for row in rest), min(row["oldest"] for row in rest)
        what = f"memories of {len(rest)} more agents could not be indexed"
        yield AttentionItem("block", "Failed", count, what, oldest, reverse("agents"))


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
