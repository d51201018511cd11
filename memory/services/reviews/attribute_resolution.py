"""Resolve the review of an attribute: how many values it has at a time, for all its facts, past and future."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cmp_to_key
from typing import Any

from django.db import transaction
from django.db.models import Q

from identity.principal import Principal
from memory.comparison.compare_facts import Comparison, Kind, compare_facts
from memory.comparison.fact_snapshot import FactSnapshot
from memory.embedding.protocol import UNKNOWN
from memory.models import Attribute, Fact, MemoryReview
from memory.policy.attributes import Cardinality, attribute_spellings
from memory.services.facts.changes import facts_lock
from memory.services.facts.comparable_facts import comparable_facts, is_replaceable
from memory.services.facts.learn import replaceable_by
from memory.services.facts.pairs import fact_supersede
from memory.services.reviews.open_review import PairReviewDraft, pair_reviews_open
from memory.services.reviews.states import (
    is_budgeted,
    joined_pairs,
    resolution_record,
    review_reopen,
    undecided_ask,
    undecided_mark,
)
from memory.services.subjects.registry import known_subjects_of, snapshot_of
from nousweb.lib import Conflict, Invalid, NotAllowed, clock

BY = Principal.of_system("attributes")
ANSWERS = {
    MemoryReview.Resolution.REPLACE: Cardinality.ONE,
    MemoryReview.Resolution.BOTH: Cardinality.MANY,
}

Pair = tuple[Fact, Fact, Comparison]


def attribute_facts(review: MemoryReview) -> list[Fact]:
    """The active facts of the attribute, the oldest first: the facts of the review and all facts that state it."""
    stated = Q(attribute__in=attribute_spellings(review.details["attribute"])) & ~Q(value="")
    facts = Fact.objects.active().filter(Q(pk__in=review.facts) | stated, agent=review.agent_id, persona=review.persona)
    return list(facts.select_related("agent", "subject_alias").order_by("recorded_at", "pk"))


def attribute_pairs(review: MemoryReview) -> list[Pair]:
    """The facts that end if the attribute has one value at a time, each with its successor, in order."""
    facts = attribute_facts(review)
    known = known_subjects_of(review.agent_id, facts)
    read = [(fact, snapshot_of(fact, known)) for fact in facts]
    read.sort(key=cmp_to_key(_by_time))
    pairs = []
    for place, (fact, seen) in enumerate(read):
        for later, shown in read[place + 1 :]:
            if not comparable_facts(later, [fact], same_words=False):
                continue
            comparison = compare_facts(seen, shown, 0.0, UNKNOWN)
            if comparison.kind is Kind.DIFFERS and comparison.later:
                pairs.append((fact, later, comparison))
                break
    return pairs


def _by_time(one: tuple[Fact, FactSnapshot], other: tuple[Fact, FactSnapshot]) -> int:
    return 1 if one[1].is_later_than(other[1]) else -1


def attribute_decide(review: MemoryReview, resolution: MemoryReview.Resolution, by: Principal) -> dict[str, Any]:
    """Store what a person decided and apply it to the facts that there are; returns the data for undoing it.

    Older values end as if the answer had been known when the newer ones were learned: what people verified, a more
    trusted source, a rule, and a fact under review do not; such a pair gets a review of its own.
    """
    decided = Attribute.objects.create(
        agent=review.agent,
        persona=review.persona,
        name=review.details["attribute"],
        cardinality=ANSWERS[resolution],
        decided_by=by.name[:200],
        decided_at=clock.now(),
    )
    joined = _joined(review)
    for pair in joined:
        pair.details = {}
        resolution_record(pair, resolution, by, comment=f"Decided for all of “{decided}”.")
    ended: list[str] = []
    if decided.cardinality == Cardinality.ONE:
        pairs = attribute_pairs(review)
        facts_lock(review.agent_id, [fact.pk for old, new, _ in pairs for fact in (old, new)])
        refused = []
        for old, new, comparison in pairs:
            if _end(review, old, new, comparison):
                ended.insert(0, str(old.pk))
            else:
                refused.append(PairReviewDraft(old, new, replace(comparison, kind=Kind.CHANGED)))
        _ask(refused, joined)
    return {"attribute": str(decided.pk), "ended": ended, "joined": [str(pair.pk) for pair in joined]}


def attribute_undecide(review: MemoryReview, by: Principal) -> None:
    """Forget what was decided; its pairs are asked about by this review again."""
    Attribute.objects.filter(agent=review.agent_id, pk=review.before["attribute"]).delete()
    pairs = MemoryReview.objects.filter(agent=review.agent_id, pk__in=review.before["joined"])
    for pair in pairs.select_for_update(of=("self",)).select_related("agent"):
        pair.details = {"question": str(review.pk)}
        review_reopen(pair, by)


def _joined(review: MemoryReview) -> list[MemoryReview]:
    """The pairs that wait for the answer to this review."""
    pairs = joined_pairs(review).select_related("agent")
    return list(pairs.select_for_update(of=("self",)).order_by("pk"))


def _ask(refused: Sequence[PairReviewDraft], joined: Sequence[MemoryReview]) -> None:
    """Ask about these pairs within the attention budget: by their own rows, where they had joined the review of the
    attribute."""
    waiting = {frozenset((pair.old_id, pair.new_id)): pair for pair in joined}
    for draft in refused:
        pair = waiting.get(frozenset((draft.old.pk, draft.new.pk)))
        if pair is not None:
            undecided_mark(pair, BY)
            review_reopen(pair, BY)
            undecided_ask(pair, BY, always=not is_budgeted(pair))
    pair_reviews_open(refused, by=BY)


def _end(review: MemoryReview, old: Fact, new: Fact, comparison: Comparison) -> bool:
    if not is_replaceable(old, new, replaceable_by(BY)):
        return False
    values = {"attribute": comparison.attribute, "old": comparison.old_value, "new": comparison.new_value}
    try:
        with transaction.atomic():
            fact_supersede(
                old=old,
                new=new,
                by=BY,
                reason=f"People decided that there is one {comparison.attribute} at a time.",
                evidence={"review": str(review.pk), "changed": values},
            )
    except (Invalid, Conflict, NotAllowed):
        return False
    return True
