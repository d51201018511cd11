"""The rows of the inbox: each item in the words of its kind, with its assignee and comments."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet
from django.urls import reverse

from identity.models import ChangeProposal, ItemAssignment, ItemComment, ItemSnooze
from identity.policy.sections import Risk
from identity.principal import Principal
from memory.models import MemoryReview
from nousweb.console.common.inbox_filter import InboxFilter
from nousweb.console.common.inbox_query import PROPOSAL, REVIEW, InboxEntry
from nousweb.console.common.review_pace import LATELY
from nousweb.console.identity.review_queue import RISK_KINDS, ReviewItem, proposals_of
from nousweb.console.memory.review_queue import review_title, reviews_of
from nousweb.lib import clock
from nousweb.lib.textdiff import TextDiff, diff_texts

MOMENTS_READ = 2_000
"""Maximum number of a person's latest decisions that are read, for their pace and today's count."""


@dataclass(slots=True)
class InboxRow:
    """One item, or the first of a group of near-identical ones, as the inbox shows it."""

    entry: InboxEntry
    url: str
    title: str
    reason: str
    agent: str
    source: str
    kind: str
    diff: TextDiff | None = None
    proposal: ReviewItem | None = None
    group_url: str = ""
    assignee: str = ""
    comments: int = 0
    snooze: ItemSnooze | None = None
    badges: list[dict[str, str]] = field(default_factory=list)

    @property
    def risk_label(self) -> str:
        return Risk(self.entry.risk).label

    @property
    def risk_kind(self) -> str:
        return RISK_KINDS[Risk(self.entry.risk)]


def inbox_rows(entries: Sequence[InboxEntry], part: InboxFilter, by: Principal) -> list[InboxRow]:
    """The rows of these entries for `by`, in their order; those that are gone meanwhile are left out."""
    keys = {one: [entry.id for entry in entries if entry.type == one] for one in (PROPOSAL, REVIEW)}
    proposals = {item.proposal.pk: item for item in proposals_of(keys[PROPOSAL])}
    reviews = {review.pk: review for review in reviews_of(keys[REVIEW])}
    rows = []
    for entry in entries:
        if entry.id in proposals:
            rows.append(_proposal_row(entry, proposals[entry.id], part))
        elif entry.id in reviews:
            rows.append(_review_row(entry, reviews[entry.id], part))
    if part.view == "snoozed":
        held = ItemSnooze.objects.filter(
            person_id=int(by.id), ended_at=None, item_id__in=[row.entry.id for row in rows]
        )
        snoozes = {one.item_id: one for one in held}
        for row in rows:
            row.snooze = snoozes.get(row.entry.id)
    return _with_people(rows)


def _proposal_row(entry: InboxEntry, item: ReviewItem, part: InboxFilter) -> InboxRow:
    proposal = item.proposal
    applied = proposal.status == ChangeProposal.Status.APPLIED
    row = InboxRow(
        entry=entry,
        url=part.item_url(PROPOSAL, entry.id),
        title=item.title,
        reason=proposal.reason or "No reason given.",
        agent=proposal.agent.name,
        source=f"{proposal.author_name} ({proposal.get_author_kind_display().lower()})",
        kind="Applied by the agent" if applied else "Identity",
        diff=item.row_diff,
        proposal=item,
        group_url=f"{reverse('review')}?alike={entry.alike}" + ("&status=applied" if applied else ""),
    )
    if item.stale:
        text = "merges cleanly" if item.merged is not None else "stale"
        row.badges.append({"kind": "accent" if item.merged is not None else "warn", "text": text})
    if item.expired:
        row.badges.append({"kind": "removed", "text": "expired"})
    row.badges += [{"kind": "warn", "text": word} for word in item.warning_words]
    return row


def _review_row(entry: InboxEntry, review: MemoryReview, part: InboxFilter) -> InboxRow:
    return InboxRow(
        entry=entry,
        url=part.item_url(REVIEW, entry.id),
        title=review_title(review),
        reason=f"Known: {review.old.content}" if review.old else "",
        agent=review.agent.name,
        source=f"about {review.subject}" if review.subject else "",
        kind=review.get_kind_display(),
        diff=diff_texts(review.old.content, review.new.content) if review.old and review.new else None,
        group_url=f"{reverse('memory_review')}?alike={entry.alike}",
    )


def _with_people(rows: list[InboxRow]) -> list[InboxRow]:
    """Add the assignee and the number of comments to the rows. Two queries."""
    keys = [row.entry.id for row in rows]
    assigned: QuerySet[ItemAssignment] = ItemAssignment.objects.filter(item_id__in=keys).select_related("person")
    people: dict[UUID, str] = {one.item_id: one.person.get_username() for one in assigned}
    said = ItemComment.objects.filter(item_id__in=keys).order_by().values_list("item_id").annotate(Count("pk"))
    comments: Counter[UUID] = Counter(dict(said))
    for row in rows:
        row.assignee, row.comments = people.get(row.entry.id, ""), comments[row.entry.id]
    return rows


def decisions_lately(by: Principal) -> list[datetime]:
    """The times of this person's decisions within the last day, of all kinds. One query."""
    since = clock.now() - LATELY
    proposals = ChangeProposal.objects.filter(reviewer_id=by.id, decided_at__gte=since).order_by()
    reviews = MemoryReview.objects.filter(resolver_id=by.id, resolver_kind="person", resolved_at__gte=since).order_by()
    both: Any = proposals.values_list("decided_at").union(reviews.values_list("resolved_at"), all=True)
    return [moment for (moment,) in both[:MOMENTS_READ]]
