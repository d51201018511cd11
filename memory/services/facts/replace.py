"""Replace a fact on request: at once, or by a review if the old one is verified by people."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.comparison.compare_facts import compare_facts
from memory.embedding.thresholds import UNKNOWN
from memory.models import (
    KEYS,
    Fact,
    MemoryReview,
    inherited_user,
)
from memory.persona import change_check
from memory.policy import MAX_REMARK_CHARACTERS
from memory.services.facts.changes import pending_review_check
from memory.services.facts.learn import fact_learn
from memory.services.facts.pairs import fact_supersede, successor_scope_check
from memory.services.facts.reconcile import LearnResult
from memory.services.memory_write import learning_lock
from memory.services.reviews.open_review import PairReviewDraft, pair_review_key, pair_reviews_open
from memory.services.subjects.registry import pair_snapshots
from nousweb.lib import Conflict, Invalid, clock, existing, text_check

INHERITED = ("subject", "attribute", "category", "kind", "scope", *KEYS, "tags", "confidence", "importance")
"""Fields that a replacement takes from the old fact, unless they are given; it expires with it too."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """`action`: "superseded", or "queued" if nothing was replaced and `review` is pending."""

    action: str
    old: Fact
    new: Fact
    review: UUID | None = None


@agent_transaction(of="old")
def fact_replace(
    *,
    old: Fact,
    by: Principal,
    new: Fact | None = None,
    fields: Mapping[str, Any] | None = None,
    reason: str = "",
    at: datetime | None = None,
) -> Replacement:
    """Supersede `old` by `new`, or by a fact that is learned from `fields` (arguments of `fact_learn`).

    INHERITED fields that are missing in `fields` are taken from `old`. If the call is refused, nothing is learned. If
    `by` is not a person and `old` is verified by people, a review is opened instead. Raises Conflict with the review's
    id if a review of `old` is pending or one of the two facts was resolved; Conflict if both are verified by people;
    else as `fact_supersede`.
    """
    change_check(old, by, "memory.add_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    if not by.is_person:
        # Reviews are opened under this lock, so none is opened between this check and the change.
        learning_lock(old.agent, old.persona)
        # Not locked here: facts are locked in one order only, and `fact_supersede` checks again under the lock.
        current = existing(
            Fact.objects.select_related("agent").filter(agent=old.agent_id, pk=old.pk).first(), "There is no such fact."
        )
        old = current
        if old.active:
            pending_review_check(old)
    if new is None:
        learned = _replacement_learn(old, dict(fields or {}), by)
        # Nothing was learned where a review asks whether the sentence is true of two subjects.
        if learned.waits or any(review.kind == MemoryReview.Kind.REPEATED for review in learned.reviews):
            return Replacement("queued", old, learned.fact, learned.review)
        new = learned.fact
    if by.is_person or not old.endorsed or not old.active:
        superseded, successor = fact_supersede(old=old, new=new, by=by, reason=reason, at=at)
        return Replacement("superseded", superseded, successor)
    if old.pk == new.pk:
        raise Invalid("A fact cannot supersede itself.", field="fact_id")
    change_check(new, by, "memory.add_fact")
    successor_scope_check(old, new)
    return Replacement("queued", old, new, _open_replacement_review(old, new, by, reason).pk)


def _replacement_learn(old: Fact, fields: dict[str, Any], by: Principal) -> LearnResult:
    fields = {name: getattr(old, name) for name in INHERITED} | {"user": inherited_user(None, old)} | fields
    if old.expires_at and old.expires_at > clock.now():
        fields = fields if "ttl" in fields else {"expires_at": old.expires_at} | fields
    # A person who corrects a fact has decided about its subject, so no review about another subject is needed.
    learned = fact_learn(agent=old.agent, persona=old.persona, by=by, exclude=[old.pk], repeats=by.is_person, **fields)
    if learned.waits:
        return learned
    if not learned.fact.active:
        raise Conflict(
            "People marked the new text as wrong. To request a review, learn it separately and give its source.",
            fact=str(learned.fact.pk),
        )
    if learned.action == "decided":
        raise Conflict(
            "The same is known about another subject, and people decided that it is not true of this one.",
            fact=str(learned.fact.pk),
        )
    return learned


def _open_replacement_review(old: Fact, new: Fact, by: Principal, reason: str) -> MemoryReview:
    """Open the review of whether `new` replaces `old`, which is verified by people. Raises Conflict."""
    decided = MemoryReview.objects.filter(agent=old.agent_id, about=pair_review_key(old.pk, new.pk)).first()
    if decided is not None:
        raise Conflict(
            f"People have decided about these two facts already (review {decided.pk}).", review=str(decided.pk)
        )
    # Read again: learning may have confirmed a fact that is verified by people.
    if Fact.objects.filter(agent=new.agent_id, pk=new.pk, endorsed=True).exists():
        raise Conflict(
            "Both facts are verified by people: only people can let one replace the other.",
            fact=str(new.pk),
        )
    before, after = pair_snapshots(old, new)
    comparison = compare_facts(before, after, 0.0, UNKNOWN)
    opened = pair_reviews_open([PairReviewDraft(old, new, comparison, wish=reason)], by=by)
    if not opened:
        raise Conflict("These two facts already had a review.")
    return opened[0]
