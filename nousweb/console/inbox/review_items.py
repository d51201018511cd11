"""Reviews of memories as items of the inbox."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from memory.models import MemoryReview
from memory.services.reviews.seen_state import row_state
from nousweb.console.inbox.filter import InboxRow
from nousweb.console.inbox.query import InboxEntry
from nousweb.lib.textdiff import diff_texts

Kind = MemoryReview.Kind
KIND_BADGES = {
    Kind.SAME_SUBJECT: "accent",
    Kind.REPEATED: "accent",
    Kind.ATTRIBUTE: "accent",
    Kind.CONTRADICTION: "warn",
    Kind.RELEARNED: "warn",
    Kind.ESCALATION: "block",
    Kind.HELD: "block",
}


def reviews_of(keys: Sequence[UUID]) -> list[MemoryReview]:
    """The reviews with these keys and their objects, in this order; missing ones are left out."""
    reviews = MemoryReview.objects.select_related("agent", "old", "new", "censor").in_bulk(keys)
    return [reviews[key] for key in keys if key in reviews]


def review_title(review: MemoryReview) -> str:
    """The title of a review, with the words in question."""
    if review.censor is not None:
        return str(review.censor)
    if review.new is not None:
        return review.new.content
    if review.kind == Kind.SAME_SUBJECT:
        return f"{review.reasons[0]['old'] if review.reasons else 'A subject'} and {review.subject}"
    if review.kind == Kind.REPEATED:
        return review.proposal
    if review.kind == Kind.HELD:
        return f"Quarantined: a text that reads like an instruction to the agent ({review.subject})"
    if review.kind == Kind.ATTRIBUTE:
        return str(review.reasons[0]["words"])
    number = len(review.facts)
    return f"{number} fact{'' if number == 1 else 's'} about {review.subject}"


def review_row(entry: InboxEntry, review: MemoryReview) -> InboxRow:
    """The row of a review."""
    badges = [{"kind": KIND_BADGES.get(Kind(review.kind), "neutral"), "text": review.get_kind_display()}]
    times: list[tuple[str, Any]] = [("opened", review.created_at)]
    if review.status == MemoryReview.Status.PENDING:
        times.append(("expires", review.expires_at))
    else:
        badges.append({"kind": "neutral", "text": review.get_resolution_display() or "Expired"})
        times.append((f"{review.resolver_name}," if review.resolver_name else "closed", review.resolved_at))
    meta = [
        f"about {review.subject}" if review.subject else "",
        "" if review.score is None else f"score {review.score:.2f}",
        f"judge: {review.verdict['relation']}" if review.verdict.get("relation") else "",
    ]
    return InboxRow(
        entry=entry,
        title=review_title(review),
        agent=review.agent.name,
        reason=f"Known: {review.old.content}" if review.old else "",
        meta=list(filter(None, meta)),
        badges=badges,
        times=times,
        diff=diff_texts(review.old.content, review.new.content) if review.old and review.new else None,
        state=row_state(review),
    )
