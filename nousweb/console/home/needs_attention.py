"""Items that need a person's attention: each kind with its count, its age and the page where it is handled."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min
from django.urls import reverse

from context.expectations.services import broken_results
from context.models import ExpectationResult
from identity.models import Agent, ChangeProposal
from identity.policy.sections import Risk
from identity.principal import Principal
from identity.services.inbox_items import not_snoozed
from memory.models import IndexStatus, Job, MemoryReview, SearchItem
from nousweb.console.inbox.filter import RISK_KINDS, InboxFilter

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
