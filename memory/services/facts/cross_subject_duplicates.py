"""Duplicates across subjects: a sentence already learned about another subject is not stored but reviewed.

Until then it belongs to the subject for which it was learned first, and the review keeps the fields of the other fact.
A resolution also applies when the sentence is learned again, unless people have separated the two subjects since.
"""

import hashlib
from datetime import datetime
from typing import Any
from uuid import UUID

from identity.principal import Principal
from memory.models import Fact, MemoryReview, SubjectAlias
from memory.services.facts.fields import FACT_FIELDS, TIME_FIELDS
from memory.services.reviews.open_review import review_open
from memory.services.subjects.registry import alias_enter
from memory.subjects.spelling import key_of

Kind = MemoryReview.Kind
Resolution = MemoryReview.Resolution
MAX_REPEATED_REVIEWS = 5
"""Maximum number of reviews of one sentence and one other subject."""


def cross_subject_review(*, fact: Fact, stored: Fact, by: Principal) -> MemoryReview | None:
    """The review of whether the sentence of `stored` is also true of the subject of `fact`, which is not stored: the
    pending one, or a new one. None if it was resolved: see `holds_for_both`."""
    earlier = _reviews(fact, stored)
    if pending := earlier.pending().first():
        return pending
    opened = list(earlier.order_by("-created_at")[:MAX_REPEATED_REVIEWS])
    if opened and (
        opened[0].resolution in (Resolution.BOTH, Resolution.NEW_WRONG) or len(opened) == MAX_REPEATED_REVIEWS
    ):
        return None
    alias = alias_enter(agent=fact.agent, persona=fact.persona, spelling=fact.subject, by=by, category=fact.category)
    of = f"about “{stored.subject}”" if stored.subject else "without a subject"
    return review_open(
        agent=fact.agent,
        persona=fact.persona,
        kind=Kind.REPEATED,
        about=f"{_key_prefix(fact, stored)}:{len(opened)}",
        by=by,
        subject=fact.subject,
        facts=[stored.pk],
        subjects=_subjects(stored, alias),
        score=1.0,
        reasons=[
            {
                "code": "repeated",
                "words": f"The same sentence is known {of}.",
                "old": stored.subject,
                "new": fact.subject,
            }
        ],
        proposal=fact.content,
        details=_details(fact),
    )


def holds_for_both(*, fact: Fact, stored: Fact) -> bool:
    """Whether people have decided that this sentence is true of both subjects."""
    last = _reviews(fact, stored).order_by("-created_at").first()
    return last is not None and last.resolution == Resolution.BOTH


def unstored_fact_fields(review: MemoryReview) -> dict[str, Any]:
    """The fields of the fact that was not stored, from its review, as arguments of `fact_learn`."""
    fields = {name: review.details[name] for name in FACT_FIELDS if name in review.details}
    moments = {
        name: datetime.fromisoformat(review.details[name]) if review.details.get(name) else None for name in TIME_FIELDS
    }
    return {"content": review.proposal, **fields, **moments}


def _reviews(fact: Fact, stored: Fact) -> Any:
    about = _key_prefix(fact, stored)
    keys = [f"{about}:{number}" for number in range(MAX_REPEATED_REVIEWS)]
    return MemoryReview.objects.filter(agent=fact.agent_id, persona=fact.persona, about__in=keys)


def _key_prefix(fact: Fact, stored: Fact) -> str:
    named = hashlib.sha256(key_of(fact.subject).encode()).hexdigest()[:24]
    return f"repeated:{stored.pk}:{named}"


def _subjects(stored: Fact, alias: SubjectAlias | None) -> list[UUID]:
    keys = [each.subject_id for each in (stored.subject_alias, alias) if each is not None]
    return list(dict.fromkeys(keys))


def _details(fact: Fact) -> dict[str, Any]:
    moments = {name: getattr(fact, name) for name in TIME_FIELDS}
    return {name: getattr(fact, name) for name in FACT_FIELDS} | {
        name: moment.isoformat() if moment else None for name, moment in moments.items()
    }
