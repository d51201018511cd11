"""The items of the inbox, of both types: as rows of the list and as lines of its file."""

from collections import Counter
from collections.abc import Sequence
from operator import methodcaller
from typing import Any
from uuid import UUID

from django.db.models import Count

from identity.models import ItemAssignment, ItemComment, ItemSnooze
from identity.policy.inbox import DECIDE_RIGHTS
from identity.policy.sections import Risk
from identity.principal import Principal
from memory.models import MemoryReview, Trust
from memory.policy import PROFILE_CATEGORIES
from memory.services.reviews.quarantine_resolution import row_state, texts_preload
from memory.services.reviews.resolve import bulk_resolutions
from nousweb.console.common import ListExport
from nousweb.console.inbox.filter import InboxFilter, InboxRow
from nousweb.console.inbox.item_titles import review_diff, review_outcome, review_title
from nousweb.console.inbox.proposal_items import ProposalItem, proposal_row, proposals_of, with_shortfalls
from nousweb.console.inbox.query import PROPOSAL, REVIEW, InboxEntry

Kind = MemoryReview.Kind
KIND_BADGES = {
    Kind.SAME_SUBJECT: "accent",
    Kind.REPEATED: "accent",
    Kind.ATTRIBUTE: "accent",
    Kind.CONTRADICTION: "warn",
    Kind.RELEARNED: "warn",
    Kind.ESCALATION: "block",
    Kind.QUARANTINED: "block",
    Kind.NEW_MEMORY: "accent",
}


RISK_WORDS = {
    (Kind.ESCALATION, Risk.HIGH): "A censor blocks since it matched often, which nobody has decided.",
    (Kind.CONTRADICTION, Risk.HIGH): "It contradicts a fact that people verified.",
    (Kind.CONTRADICTION, Risk.MEDIUM): "It contradicts a known fact.",
    (Kind.RELEARNED, Risk.MEDIUM): "People marked it as wrong before.",
    (Kind.ATTRIBUTE, Risk.MEDIUM): "The answer decides about all facts of an attribute.",
}
"""Why a review of a kind has a risk."""


def risk_words(kind: str, risk: str) -> str:
    return RISK_WORDS.get((Kind(kind), Risk(risk)), "") if risk else ""


def reviews_of(keys: Sequence[UUID]) -> list[MemoryReview]:
    """The reviews with these keys and their objects, in this order; missing ones are left out."""
    reviews = MemoryReview.objects.select_related("agent", "old", "new", "censor").in_bulk(keys)
    texts_preload(review for review in reviews.values() if review.kind == Kind.NEW_MEMORY)
    return [reviews[key] for key in keys if key in reviews]


def review_row(entry: InboxEntry, review: MemoryReview) -> InboxRow:
    """The row of a review."""
    is_new = review.kind == Kind.NEW_MEMORY
    diff, writer = review_diff(review), review.details.get("writer", "")
    waits = is_new and review.details.get("codes") == ["consent"]
    times: list[tuple[str, Any]] = [("opened", review.created_at)]
    is_open = review.status in MemoryReview.OPEN
    if review.status == MemoryReview.Status.PENDING:
        times.append(("expires", review.expires_at))
    elif not is_open:
        times.append((f"{review.resolver}," if review.resolver else "closed", review.resolved_at))
    outcome = review_outcome(review)
    meta = [
        f"about {review.subject}" if review.subject else "",
        f"score {review.score:.2f}" if review.score else "",
        f"judge: {review.verdict['relation']}" if review.verdict.get("relation") else "",
        f"source {review.details['source']}" if review.details.get("source") else "",
    ]
    return InboxRow(
        entry=entry,
        title=outcome.holds if outcome else review_title(review, diff),
        agent=review.agent.name,
        author=_writer(review),
        kind=review.label,
        answers=bulk_resolutions(review.kind),
        reason=outcome.other
        if outcome
        else f"Known: {review.old.content}"
        if review.old
        else writer and f"By {writer}",
        meta=list(filter(None, meta)),
        outcome="" if is_open else outcome.phrase if outcome else review.answer or "Expired",
        times=times,
        diff=diff,
        state=row_state(review),
        opens_group=is_new,
        why=risk_words(review.kind, entry.risk),
        is_everywhere=review.censor is not None
        or any(fact and fact.category in PROFILE_CATEGORIES for fact in (review.old, review.new)),
        badges=[{"kind": "warn", "text": "not in use"}] if waits else [],
    )


def _writer(review: MemoryReview) -> str:
    """Whose words a review is about; "" where that is unknown, not to be known by who answers it, or told of the fact
    as the answer made it."""
    if review.new is None or "blind" in review.details or review.status not in MemoryReview.OPEN:
        return ""
    return review.agent.name if review.new.trust == Trust.AGENT else Trust(review.new.trust).label


COLUMNS = (
    "id",
    "type",
    "agent",
    "persona",
    "kind",
    "status",
    "title",
    "subject",
    "reason",
    "risk",
    "priority",
    "prompts",
    "base_version",
    "content",
    "old",
    "new",
    "score",
    "resolution",
    "author_kind",
    "author_name",
    "reviewer_name",
    "comment",
    "edited",
    "self_applied",
    "created_at",
    "decided_at",
    "expires_at",
)


INBOX = ListExport("Inbox", tuple((name, methodcaller("get", name, "")) for name in COLUMNS))
"""Of both types. `reason` is why a change is proposed, and the known fact that a review is about."""


def items_of(entries: Sequence[InboxEntry]) -> list[tuple[InboxEntry, ProposalItem | MemoryReview]]:
    """These entries with what they are about, in their order; those that are gone meanwhile are left out."""
    keys = {kind: [entry.id for entry in entries if entry.type == kind] for kind in (PROPOSAL, REVIEW)}
    items: dict[UUID, Any] = {item.proposal.pk: item for item in proposals_of(keys[PROPOSAL])}
    items |= {review.pk: review for review in reviews_of(keys[REVIEW])}
    return [(entry, items[entry.id]) for entry in entries if entry.id in items]


def export_lines(entries: Sequence[InboxEntry]) -> list[dict[str, Any]]:
    """The lines of these entries, each item by itself."""
    return [_line(entry, item) for entry, item in items_of(entries)]


def _line(entry: InboxEntry, item: ProposalItem | MemoryReview) -> dict[str, Any]:
    row = item.proposal if isinstance(item, ProposalItem) else item
    line = {name: getattr(row, name) for name in COLUMNS if hasattr(row, name)}
    line |= {"agent": row.agent.slug, "type": entry.type, "priority": entry.priority, "prompts": entry.prompts}
    if isinstance(item, ProposalItem):
        return line | {"title": item.title, "kind": item.proposal.section}
    old, new = (fact.content if fact else "" for fact in (item.old, item.new))
    line |= {"title": str(review_title(item)), "risk": entry.risk, "old": old, "new": new, "reason": old}
    return line | {"reviewer_name": item.resolver_name, "decided_at": item.resolved_at}


def inbox_rows(entries: Sequence[InboxEntry], part: InboxFilter, by: Principal) -> list[InboxRow]:
    """The rows of these entries for `by`, in their order, with what people did with them."""
    items = items_of(entries)
    if len(part.split.types) == 1 and not part.is_decided:
        with_shortfalls([item for _, item in items if isinstance(item, ProposalItem)], by)
    rows = [
        proposal_row(entry, item) if isinstance(item, ProposalItem) else review_row(entry, item)
        for entry, item in items
    ]
    keys = [row.entry.id for row in rows]
    assignments = ItemAssignment.objects.filter(item_id__in=keys).select_related("person")
    people = {assignment.item_id: assignment.person.get_username() for assignment in assignments}
    numbers = ItemComment.objects.filter(item_id__in=keys).order_by().values_list("item_id").annotate(Count("pk"))
    comments: Counter[UUID] = Counter(dict(numbers))
    snoozes: dict[UUID, ItemSnooze] = {}
    if part.view == "snoozed":
        mine = ItemSnooze.objects.filter(person_id=int(by.id), ended_at=None, item_id__in=keys)
        snoozes = {snooze.item_id: snooze for snooze in mine}
    for row, (_, item) in zip(rows, items, strict=True):
        key = row.entry.id
        row.may_undo = part.is_decided and by.may(DECIDE_RIGHTS[row.entry.type]) and item.undoable
        row.assignee, row.comments, row.snooze = people.get(key, ""), comments[key], snoozes.get(key)
        row.placed(part, by)
    return rows
