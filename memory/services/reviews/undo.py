"""Undo a resolution by new changes; the review is pending again."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.models import Censor, Fact, FactChange, MemoryReview, SubjectChange
from memory.services.censors import censor_update
from memory.services.facts import fact_invalidate, fact_restore, fact_unconfirm
from memory.services.facts.changes import endorsement_change, facts_lock
from memory.services.memory_write import learning_lock
from memory.services.reviews.quarantine_resolution import attribute_undecide, quarantine_undo
from memory.services.reviews.states import (
    REVIEW,
    Status,
    review_lock,
    review_reopen,
    review_settle,
    reviews_settle,
)
from memory.services.subjects.changes import subject_change_undo
from nousweb.lib import Conflict, existing


@agent_transaction(of="review")
def review_undo(*, review: MemoryReview, by: Principal, resolved_at: datetime | None = None) -> MemoryReview:
    """Undo the resolution of a review by new changes; the review is pending again.

    `resolved_at` names the resolution to undo. Raises Conflict if there is nothing to undo, if another resolution was
    made since, or if the changed memories have changed since.
    """
    by.require(REVIEW, review.agent)
    if any(review.before.get(name) for name in ("subjects", "quarantined", "attribute")):
        learning_lock(review.agent, review.persona)
    review = review_lock(review)
    if review.status != Status.RESOLVED:
        raise Conflict("This review has no resolution to undo.")
    if resolved_at not in (None, review.resolved_at):
        raise Conflict(f"This review has been resolved again since, by {review.resolver_name}: nothing was undone.")
    if not review.undoable:
        raise Conflict("This review was closed because its reason ended. It is pending again when that stands again.")
    effects_undo(review, review.before, by)
    review_reopen(review, by)
    return _settled(review)


@agent_transaction(of="fact")
def supersession_undo(*, fact: Fact, by: Principal, reason: str = "") -> Fact:
    """Restore a superseded fact; the review that led to the supersession is pending again.

    Raises Conflict if the fact is not superseded, NotAllowed.
    """
    by.require(REVIEW, fact.agent)
    if fact.active or fact.superseded_by_id is None:
        raise Conflict("This fact was not replaced: there is nothing to undo.")
    pairs = Q(old=fact, new=fact.superseded_by_id) | Q(old=fact.superseded_by_id, new=fact)
    rows = MemoryReview.objects.select_for_update(of=("self",)).select_related("agent")
    rows = rows.filter(pairs, agent=fact.agent_id, status=Status.RESOLVED)
    review = next((row for row in rows if row.undoable), None)
    if review is not None:
        effects_undo(review, {name: review.before.get(name, {}) for name in ("endorsed", "confirmed")}, by)
    restored = fact_restore(fact=fact, by=by, reason=reason or "The supersession was undone.")
    if review is not None:
        review_reopen(review, by)
        _settled(review)
    return restored


def _settled(review: MemoryReview) -> MemoryReview:
    """The reopened review, closed again if what it is about has ended since its resolution."""
    review = review_lock(review)
    review_settle(review)
    if review.status == Status.JOINED:
        reviews_settle(agent_id=review.agent_id, facts=[key for key in (review.old_id, review.new_id) if key])
    return review


def effects_undo(review: MemoryReview, undo: dict[str, Any], by: Principal) -> None:
    """Undo by new changes what `undo` says that a resolution, or an automatic decision, changed."""
    reason, endorsed = "The resolution was undone.", _endorsed_before(review, undo)
    if undo.get("quarantined"):
        quarantine_undo(review, by)
    if key := undo.get("subjects"):
        merged = existing(
            SubjectChange.objects.filter(agent=review.agent_id, pk=key).first(),
            Conflict("The merged fact no longer exists; the resolution cannot be undone."),
        )
        if merged.undone_at is None:
            subject_change_undo(change=merged, by=by, reason=reason)
    if undo.get("attribute"):
        attribute_undecide(review, by)
    retired = [
        *undo.get("merged", []),
        *undo.get("ended", []),
        *filter(None, [undo.get("superseded"), undo.get("invalidated")]),
    ]
    successors = Fact.objects.filter(agent=review.agent_id, supersedes__in=retired).values_list("pk", flat=True)
    others = [undo.get("confirmed", {}).get("fact"), undo.get("made"), undo.get("restored")]
    facts = facts_lock(review.agent_id, {*map(UUID, [*retired, *filter(None, others)]), *successors, *endorsed})
    if any(UUID(key) not in facts for key in retired):
        raise Conflict("One of these facts no longer exists; the resolution cannot be undone.")
    for key in retired:
        fact_restore(fact=facts[UUID(key)], by=by, reason=reason)
    for pk in endorsed.keys() & facts.keys():
        endorsement_change(fact=facts[pk], by=by, endorsed=endorsed[pk], reason=reason)
    if (key := undo.get("restored")) and (restored := facts.get(UUID(key))):
        fact_invalidate(fact=restored, by=by, reason=reason)
    if (heard := undo.get("confirmed")) and (old := facts.get(UUID(heard["fact"]))):
        last = heard["before"] and datetime.fromisoformat(heard["before"])
        fact_unconfirm(fact=old, by=by, heard_at=datetime.fromisoformat(heard["at"]), before=last, reason=reason)
    if made := undo.get("made"):
        third = Fact.objects.select_related("agent").filter(agent=review.agent_id, pk=made, active=True).first()
        if third is not None:
            fact_invalidate(fact=third, by=by, reason=reason)
    if (censor := undo.get("censor")) and review.censor is not None:
        censor_update(censor=review.censor, by=by, message=reason, **censor)
    if undo.get("censor_kept") and review.censor is not None:
        Censor.objects.filter(pk=review.censor.pk).update(endorsed=False)


def _endorsed_before(review: MemoryReview, undo: dict[str, Any]) -> dict[UUID, bool]:
    """By fact: was it verified by people before the resolution? Without facts that people have changed since."""
    endorsed = {UUID(key): bool(was) for key, was in undo.get("endorsed", {}).items()}
    resolved = review.resolved_at or review.created_at
    since = FactChange.objects.filter(fact__in=endorsed, author_kind="person", at__gt=resolved)
    for key in since.values_list("fact_id", flat=True):
        endorsed.pop(key, None)
    return endorsed
