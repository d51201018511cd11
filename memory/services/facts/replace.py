"""Putting one fact in the place of another on request: done, or asked of people whose word the old one is."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.comparison.compare import compare_facts
from memory.embedding.thresholds import UNKNOWN
from memory.models import Fact, MemoryReview
from memory.persona import change_check
from memory.policy import MAX_REMARK_CHARACTERS
from memory.services.facts.endorsement import waiting_review
from memory.services.facts.learn import LearnResult, fact_learn
from memory.services.facts.locks import learning_lock
from memory.services.facts.supersede import fact_supersede, reach_check
from memory.services.reviews.opening import PairQuestion, pair_about, pair_reviews_open
from memory.services.subjects.fact_snapshots import pair_snapshots
from nousweb.lib.errors import Conflict, Invalid, NotFound
from nousweb.lib.validation import text_check

INHERITED = ("subject", "category", "kind", "scope", "project", "task", "tags", "confidence", "importance")
"""What a replacement takes from the fact that it replaces, unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """`action`: "superseded", or "queued" when nothing is replaced and `review` asks people."""

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
    """Let `new` take the place of `old`, or else a fact learned from `fields`, arguments of `fact_learn`.

    What `fields` leave out of INHERITED is that of `old`. What is refused leaves nothing learned. Where `by` is no
    person and `old` is people's word, they are asked instead. Raises Conflict, naming the review, while people are
    asked about `old` or when they have decided about the two; Conflict too where both are people's word; else as
    `fact_supersede` does.
    """
    change_check(old, by, "memory.add_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    if not by.is_person:
        # Reviews are opened under this lock, so none comes up between the look and the change.
        learning_lock(old.agent, old.persona)
        # Read and not locked: rows of facts are locked in one order, and `fact_supersede` looks again under the lock.
        current = Fact.objects.select_related("agent").filter(agent=old.agent_id, pk=old.pk).first()
        if current is None:
            raise NotFound("There is no such fact.")
        old = current
        if old.active and (waiting := waiting_review(old)):
            raise Conflict(
                f"People are reviewing this fact (review {waiting.pk}): it does not change before they have decided.",
                review=str(waiting.pk),
            )
    if new is None:
        learned = _replacement_learn(old, dict(fields or {}), by)
        if learned.action == "held":
            return Replacement("queued", old, learned.fact, learned.review)
        if _is_elsewhere(learned):
            return Replacement("queued", old, learned.fact, learned.review)
        new = learned.fact
    if by.is_person or not old.endorsed or not old.active:
        superseded, successor = fact_supersede(old=old, new=new, by=by, reason=reason, at=at)
        return Replacement("superseded", superseded, successor)
    if old.pk == new.pk:
        raise Invalid("A fact cannot supersede itself.", field="fact_id")
    change_check(new, by, "memory.add_fact")
    reach_check(old, new)
    return Replacement("queued", old, new, _replacement_ask(old, new, by, reason).pk)


def _replacement_learn(old: Fact, fields: dict[str, Any], by: Principal) -> LearnResult:
    fields = {name: getattr(old, name) for name in INHERITED} | fields
    # A person who corrects one fact has decided about its subject, whatever is known of others.
    learned = fact_learn(agent=old.agent, persona=old.persona, by=by, exclude=[old.pk], repeats=by.is_person, **fields)
    if learned.action == "held":
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


def _is_elsewhere(learned: LearnResult) -> bool:
    """Whether nothing was learned, because the same is known about another subject and people are asked."""
    return any(review.kind == MemoryReview.Kind.REPEATED for review in learned.reviews)


def _replacement_ask(old: Fact, new: Fact, by: Principal, reason: str) -> MemoryReview:
    """Ask people whether `new` takes the place of `old`, which is their word."""
    decided = MemoryReview.objects.filter(agent=old.agent_id, about=pair_about(old.pk, new.pk)).first()
    if decided is not None:
        raise Conflict(
            f"People have decided about these two facts already (review {decided.pk}).", review=str(decided.pk)
        )
    # Read again: learning may have confirmed a fact of people's.
    if Fact.objects.filter(agent=new.agent_id, pk=new.pk, endorsed=True).exists():
        raise Conflict(
            "Both facts are verified by people: only people can let one replace the other.",
            fact=str(new.pk),
        )
    before, after = pair_snapshots(old, new)
    comparison = compare_facts(before, after, 0.0, UNKNOWN)
    opened = pair_reviews_open([PairQuestion(old, new, comparison, wish=reason)], by=by)
    if not opened:
        raise Conflict("These two facts already had a review.")
    return opened[0]
