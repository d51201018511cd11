"""Lock, resolve and reopen the row of a review."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from identity.principal import Principal
from identity.services.audit import audit_record
from memory.models import MemoryReview
from nousweb.lib import clock
from nousweb.lib.errors import NotFound

REVIEW = "memory.review_memory"
Status = MemoryReview.Status


def review_lock(review: MemoryReview) -> MemoryReview:
    """Lock a review until the end of the transaction and read it again, with its facts. Raises NotFound.

    Locks are always taken in this order: the review, then its facts.
    """
    locked = (
        MemoryReview.objects.select_for_update(of=("self",))
        .select_related("agent", "old__agent", "new__agent", "censor__agent")
        .filter(agent=review.agent_id, pk=review.pk)
        .first()
    )
    if locked is None:
        raise NotFound("There is no such review.")
    return locked


def resolution_record(
    review: MemoryReview,
    resolution: MemoryReview.Resolution,
    by: Principal,
    *,
    comment: str = "",
    undo: dict[str, Any] | None = None,
    batch: UUID | None = None,
) -> None:
    """Store the resolution of a review, its author, and the data for undoing it."""
    review.status, review.resolution, review.comment = Status.RESOLVED, resolution, comment
    review.resolver_kind, review.resolver_id, review.resolver_name = by.kind, by.id, by.name
    review.resolved_at, review.batch, review.before = clock.now(), batch, undo or {}
    review.save()
    audit_record(
        by=by,
        action="memory_review.resolve",
        target=review,
        agent=review.agent,
        before={"status": str(Status.PENDING)},
        after={"resolution": str(resolution)},
        message=comment,
    )


def joined_pairs(review: MemoryReview) -> QuerySet[MemoryReview]:
    """The pairs of facts that wait for the answer to this review of an attribute."""
    waiting = (Status.JOINED, Status.UNDECIDED)
    return MemoryReview.objects.filter(agent=review.agent_id, status__in=waiting, details__question=str(review.pk))


def review_reopen(review: MemoryReview, by: Principal) -> None:
    """Make a resolved or expired review wait again: pending, joined to the review of its attribute, or undecided if
    nobody was asked and no person does it; a blind sample waits as one, while its decision stands. Contested facts as
    of a moment are computed from the records."""
    was, blind = review.resolution, review.details.get("blind", {})
    # A decision that a person's answer undid does not stand any more.
    is_blind = bool(blind) and (blind.pop("agrees", True) or not blind["undo"])
    if not is_blind:
        review.details.pop("blind", None)
    if by.is_person and not is_blind:
        review.details.pop("undecided", None)
    review.status = Status.JOINED if review.details.get("question") else Status.PENDING
    if review.details.get("undecided") and not is_blind:
        review.status = Status.UNDECIDED
    review.resolution = review.comment = ""
    review.resolver_kind = review.resolver_id = review.resolver_name = ""
    review.resolved_at = review.batch = None
    review.before = {}
    # A reopened review stays pending for at least a day before it expires.
    review.expires_at = max(review.expires_at, clock.now() + timedelta(days=1))
    review.save()
    audit_record(
        by=by,
        action="memory_review.undo",
        target=review,
        agent=review.agent,
        before={"resolution": was},
        after={"status": review.status},
    )
