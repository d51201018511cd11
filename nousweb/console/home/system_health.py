"""System health on the home page: checks of the worker, the index, its model, the judge and the log."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum, Value
from django.urls import reverse
from django.utils.text import get_text_list

from context.expectations.services import personas_of
from identity.models import LogSeal, LogVerification
from identity.policy.sealed_tables import VERIFY_EVERY
from identity.principal import Principal
from identity.services.seals.export import findings_seen, sees_all
from memory.embedding.registry import configured_name
from memory.jobs import messages_waiting
from memory.models import EmbeddingModel, IndexStatus, ItemType, JudgeCall, JudgeTask, SearchItem
from nousweb.console.home.board_rows import Sight, board_query, moment_read
from nousweb.lib import clock
from nousweb.lib.permission_holder import for_visible_agents
from nousweb.lib.prepared_statements import Rows

log = structlog.get_logger(__name__)

LATE = timedelta(minutes=5)
"""Work that waits longer than this is late: the worker takes up new work within seconds."""
ERROR_CHARACTERS = 200
AGENTS_NAMED = 3


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One part of the system: whether it is fine, else what does not work for that, and what to do.

    `kind` is "ok", "warn" or "block", or "neutral" where it cannot be told yet. `word` completes "the search index
    is …". `url` is the page of the remedy.
    """

    name: str
    kind: str
    word: str
    detail: str
    remedy: str = ""
    at: datetime | None = None
    url: str = ""

    @property
    def is_fine(self) -> bool:
        return self.kind == "ok"

    @property
    def brief(self) -> str:
        """The trouble as a part of a sentence."""
        return f"the {self.name.lower()} is {self.word}"


def worker_states() -> list[str]:
    """What the workers last reported of themselves; empty after seconds of silence."""
    from django_q.status import Stat

    return sorted({str(stat.status).lower() for stat in Stat.get_all()})


def worker_check(*, sees_queue: bool) -> HealthCheck:
    """The background worker's heartbeat, which costs no query, and its queue, which costs one.

    Silence is reported, never raised. All personas share the queue, so its length is only for those who see each.
    """
    name = "Background worker"
    try:
        count, oldest = messages_waiting()
    except Exception as error:  # A Redis that cannot be reached must not take the whole page with it.
        log.warning("queue_unreadable", error=str(error))
        return HealthCheck(
            name, "block", "cut off from its queue", "New work waits in the database.",
            "Start the Redis that NOUS_BROKER names.",
        )  # fmt: skip
    late = oldest is not None and oldest < clock.now() - LATE
    queued = f"{count:,} task{' waits' if count == 1 else 's wait'}." if count else "Nothing waits."
    if not sees_queue:
        queued, oldest = "", None
    try:
        states = worker_states()
    except Exception as error:
        log.warning("worker_state_unreadable", error=str(error))
        return HealthCheck(name, "warn", "in an unknown state", queued, "See the log of the server.", oldest)
    if not states:
        detail = f"New memories are not found by meaning, and nothing is compared or sealed. {queued}".strip()
        return HealthCheck(name, "block", "silent", detail, "Start it: `serve` runs one, `qcluster` another.", oldest)
    if late:
        return HealthCheck(
            name, "warn", "behind", queued, "See which jobs take long, or start a second worker.", oldest,
            reverse("lifecycle"),
        )  # fmt: skip
    if not {"idle", "working"} & set(states):
        return HealthCheck(name, "warn", ", ".join(states), queued, "It comes back by itself, or start it again.")
    return HealthCheck(name, "ok", ", ".join(states), queued)


UNREADY = board_query(
    lambda sight: (
        for_visible_agents(
            SearchItem.objects.filter(
                Q(status=IndexStatus.FAILED) | Q(status=IndexStatus.PENDING, model=""),
                persona__in=sight.personas,
            ),
            sight,
        )
        .order_by()
        .values_list("status", "agent__slug", "agent__name", "item_type")
        .annotate(count=Count("pk"), oldest=Min("recorded_at"))
    )
)
"""Rows of the index that are not found by meaning, of which there are few."""


def index_check(found: Rows, *, both: bool) -> HealthCheck:
    """Memories that are not indexed yet, or failed to be, from the rows of UNREADY; `both`: of both personas."""
    columns = ("status", "slug", "agent", "item_type", "count", "oldest")
    rows = [dict(zip(columns, row, strict=True)) | {"oldest": moment_read(row[5])} for row in found]
    name, failed = "Search index", [row for row in rows if row["status"] == IndexStatus.FAILED]
    if failed:
        agents = sorted({(row["slug"], row["agent"]) for row in failed})
        suffix = "?persona=subconscious" if both else ""
        return HealthCheck(
            name,
            "block",
            "incomplete",
            f"{_counted(failed)} of {_named([label for _, label in agents])} cannot be found by meaning.",
            "Read why their vectors failed, and try them again.",
            min(row["oldest"] for row in failed),
            reverse("agent_index", args=[agents[0][0]]) + suffix,
        )
    if not rows:
        return HealthCheck(name, "ok", "complete", "Every memory can be found by meaning.")
    oldest = min(row["oldest"] for row in rows)
    waits = f"{_counted(rows)} cannot be found by meaning yet."
    if oldest >= clock.now() - LATE:
        return HealthCheck(name, "ok", "being written", waits)
    return HealthCheck(name, "warn", "behind", waits, "See whether the background worker runs.", oldest)


def _counted(rows: Iterable[dict[str, Any]]) -> str:
    """Memories by type: "12 events and 1 fact"."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["item_type"]] += row["count"]
    # The database groups in no order, so types of the same number are told by name.
    words = [
        (ItemType(name).label.lower(), counts[name]) for name in sorted(counts, key=lambda one: (-counts[one], one))
    ]
    return get_text_list([f"{number:,} {word}{'' if number == 1 else 's'}" for word, number in words], "and")


def _named(agents: list[str]) -> str:
    more = len(agents) - AGENTS_NAMED
    shown = agents if more <= 0 else [*agents[:AGENTS_NAMED], f"{more} more agent{'' if more == 1 else 's'}"]
    return get_text_list(shown, "and")


MODELS = board_query(lambda sight: EmbeddingModel.objects.values_list("state", "name", "dimension", "since"))


def embedder_check(rows: Rows) -> HealthCheck:
    """The model of the index, and whether the index is moving to another one or the settings name another."""
    name, states = "Embedding model", EmbeddingModel.State
    models = {
        state: EmbeddingModel(name=model, dimension=dimension, since=moment_read(since))
        for state, model, dimension, since in rows
    }
    active, building = models.get(states.ACTIVE), models.get(states.BUILDING)
    if active is None:
        return HealthCheck(name, "ok", "not used yet", f"{settings.EMBEDDER}, from the first memory on.")
    name_shown = active.name.removeprefix("local:").removesuffix("-int8")
    detail = f"{name_shown}, {active.dimension:,} dimensions."
    if building:
        return HealthCheck(
            name, "warn", "moving", f"Searches use {active.name} until every vector of {building.name} is made.",
            "Nothing: it ends by itself while a worker runs.", building.since,
        )  # fmt: skip
    if active.name != configured_name():
        return HealthCheck(
            name, "warn", "different from the settings",
            f"Searches use {active.name}; the settings name {configured_name()}.",
            "Run `reembed` to move the index, or correct the settings.",
        )  # fmt: skip
    return HealthCheck(name, "ok", "in use", detail)


def _spent(sight: Sight, now: datetime, week: datetime, today: datetime, judge_since: datetime) -> QuerySet[Any, Any]:
    spent = F("tokens_in") + F("tokens_out")
    mine = Q(persona__in=sight.personas) & (Q() if sight.agents is None else Q(agent__in=sight.agents))
    # The playground spends of the same budget, and its failures are no judge's.
    asked = Q(created_at__gte=week, created_at__lt=now) & mine & ~Q(task=JudgeTask.CHAT)
    measures = {
        "spent_today": Sum(spent, filter=Q(created_at__gte=today) & mine, default=0),
        "all_today": Sum(spent, filter=Q(created_at__gte=today), default=0),
        "questions": Count("pk", filter=asked),
        "errors": Count("pk", filter=asked & ~Q(error="")),
        "last_error": Max("created_at", filter=asked & ~Q(error="")),
    }
    calls = JudgeCall.objects.filter(created_at__gte=judge_since).order_by()
    return calls.values_list(Value("calls")).annotate(**measures).values_list(*measures)


JUDGE_CALLS = board_query(_spent, "now", "week", "today", "judge_since")


def judge_check(rows: Rows, by: Principal) -> HealthCheck:
    """The judge's spending of today's budget, which all agents share, and its errors of a week.

    From the row of JUDGE_CALLS; for a person who is limited to some agents it has only the spending for these.
    """
    spent_today, all_today, questions, errors = (int(value or 0) for value in (rows[0][:4] if rows else [0] * 4))
    name, limit = "Judge", settings.JUDGE_DAILY_TOKENS
    if settings.JUDGE == "none" and not questions:
        return HealthCheck(name, "ok", "off", "People resolve all memory reviews.")
    of_limit = f" of {limit:,} ({round(100 * spent_today / limit)} %)" if limit else ""
    detail = f"It used {spent_today:,}{of_limit} tokens today."
    # The budget is shared: that it is spent is for everybody, what the other persona spent of it is not.
    if limit and all_today >= limit:
        return HealthCheck(
            name, "warn", "out of tokens for today", f"{detail} New questions wait until tomorrow or go to people.",
            "Raise NOUS_JUDGE_DAILY_TOKENS, or wait.",
        )  # fmt: skip
    if not errors:
        return HealthCheck(name, "ok", "working", detail)
    at = moment_read(rows[0][4])
    calls = JudgeCall.objects.filter(created_at=at, persona__in=personas_of(by)).exclude(error="")
    error = for_visible_agents(calls, by).values_list("error", flat=True).first() or ""
    return HealthCheck(
        name,
        "warn",
        "failing",
        f"{errors:,} of {questions:,} calls failed, so their questions wait or go to people."
        f" The last error: {error[:ERROR_CHARACTERS]}",
        "Correct what the error names: the key, the address or the model.",
        at,
    )


LAST_VERIFICATION = board_query(
    lambda sight: LogVerification.objects.filter(status=LogVerification.Status.DONE).values_list(
        "problems", "findings", "finished_at"
    )[:1]
)


def log_check(rows: Rows, by: Principal) -> HealthCheck:
    """The last verification of the log against its seals, from the row of LAST_VERIFICATION."""
    name, url = "Log", reverse("integrity")
    if not rows:
        began = LogSeal.objects.order_by("serial").values_list("sealed_at", flat=True).first()
        if began is None or began > clock.now() - VERIFY_EVERY:
            detail = "The audit trail was not verified yet: the worker does it within minutes of the first seal."
            return HealthCheck(name, "neutral", "not verified yet", detail, url=url)
        return HealthCheck(
            name, "warn", "not verified", "Nobody would see that an old record was changed in the database.",
            "The worker verifies it each day; ask for it on the page Integrity.", url=url,
        )  # fmt: skip
    found, findings, finished = rows[0]
    # A statement of its own, as a cluster gets it, returns JSON as text.
    findings = json.loads(findings) if isinstance(findings, str) else findings
    at = moment_read(finished)
    problems = found if sees_all(by) else len(findings_seen(LogVerification(findings=findings), by))
    if problems:
        what = "1 record is" if problems == 1 else f"{problems:,} records are"
        return HealthCheck(
            name, "block", "not as it was sealed", f"{what} not as when the product wrote them.",
            "Read the findings, and compare with a backup.", at, url,
        )  # fmt: skip
    if at is None or at < clock.now() - 2 * VERIFY_EVERY:
        return HealthCheck(
            name, "warn", "verified too long ago", "A record that was changed since would not be seen.",
            "See whether the background worker runs.", at, url,
        )  # fmt: skip
    return HealthCheck(name, "ok", "verified", "Every sealed record is as it was written.", at=at)
