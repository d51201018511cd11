"""What a person sees of a review, as a digest: a resolution names it, so that nothing is resolved that has changed."""

import hashlib
import json

from memory.models import Fact, MemoryReview, Subject
from memory.services.reviews.quarantine_resolution import quarantined_memories, quarantined_text

Kind = MemoryReview.Kind


def review_state(review: MemoryReview) -> str:
    """The digest of the texts that a review is about. At most two queries, none for pairs of facts and for censors."""
    censor = review.censor
    parts: list[object] = [review.kind, review.proposal, *map(_fact, (review.old, review.new))]
    if censor is not None:
        parts += [censor.pattern, censor.match, censor.severity]
    if review.kind == Kind.HELD:
        parts += map(quarantined_text, quarantined_memories(review))
    elif review.facts:
        rows = Fact.objects.filter(agent=review.agent_id, pk__in=review.facts).order_by("pk")
        parts += map(_fact, rows)
    if review.subjects:
        named = Subject.objects.filter(agent=review.agent_id, pk__in=review.subjects).order_by("pk")
        parts += named.values_list("name", "merged_into")
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


def row_state(review: MemoryReview) -> str:
    """The digest for a row of a list; "" for a review whose row does not show what it is about."""
    return "" if review.kind == Kind.HELD or review.facts or review.subjects else review_state(review)


def _fact(fact: Fact | None) -> list[object]:
    return [fact.pk, fact.content, fact.active, fact.endorsed] if fact else []
