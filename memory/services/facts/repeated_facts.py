"""The very same sentence, learned about another subject: stored once, and people say whether it holds of both.

Until then it stands with the subject that it was first learned about, and the question keeps what the other one was to
be. An answer is remembered; the sentence is asked about again only where people have parted the two since.
"""

import hashlib
from datetime import datetime
from typing import Any
from uuid import UUID

from identity.principal import Principal
from memory.models import Fact, MemoryReview, SubjectAlias
from memory.services.reviews.opening import review_open
from memory.services.subjects.registry import alias_enter
from memory.subjects.spelling import key_of

Kind = MemoryReview.Kind
Resolution = MemoryReview.Resolution
MAX_REPEATED_REVIEWS = 5
"""So often people are asked about one sentence and one other subject."""

KEPT = ("subject", "category", "kind", "scope", "project", "task", "tags", "confidence", "importance", "source")
MOMENTS = ("valid_from", "valid_until")


def repeated_review(*, fact: Fact, known: Fact, by: Principal) -> MemoryReview | None:
    """The question whether `fact`, which is not stored, holds beside `known`, in the same words: the one that waits,
    or a new one. None when people have answered it: `holds_of_both` says how."""
    earlier = _asked(fact, known)
    if waiting := earlier.pending().first():
        return waiting
    asked = list(earlier.order_by("-created_at")[:MAX_REPEATED_REVIEWS])
    if asked and (asked[0].resolution in (Resolution.BOTH, Resolution.NEW_WRONG) or len(asked) == MAX_REPEATED_REVIEWS):
        return None
    alias = alias_enter(agent=fact.agent, persona=fact.persona, spelling=fact.subject, by=by, category=fact.category)
    of = f"about “{known.subject}”" if known.subject else "without a subject"
    return review_open(
        agent=fact.agent,
        persona=fact.persona,
        kind=Kind.REPEATED,
        about=f"{_about(fact, known)}:{len(asked)}",
        by=by,
        subject=fact.subject,
        facts=[known.pk],
        subjects=_subjects(known, alias),
        score=1.0,
        reasons=[
            {
                "code": "repeated",
                "words": f"The same sentence is known {of}.",
                "old": known.subject,
                "new": fact.subject,
            }
        ],
        proposal=fact.content,
        details=_details(fact),
    )


def holds_of_both(*, fact: Fact, known: Fact) -> bool:
    """Whether people have said that this sentence holds of both subjects."""
    last = _asked(fact, known).order_by("-created_at").first()
    return last is not None and last.resolution == Resolution.BOTH


def fields_of(review: MemoryReview) -> dict[str, Any]:
    """What a question kept of the sentence that was not stored, as arguments of `fact_learn`."""
    kept = {name: review.details[name] for name in KEPT if name in review.details}
    moments = {
        name: datetime.fromisoformat(review.details[name]) if review.details.get(name) else None for name in MOMENTS
    }
    return {"content": review.proposal, **kept, **moments}


def _asked(fact: Fact, known: Fact) -> Any:
    about = _about(fact, known)
    keys = [f"{about}:{number}" for number in range(MAX_REPEATED_REVIEWS)]
    return MemoryReview.objects.filter(agent=fact.agent_id, persona=fact.persona, about__in=keys)


def _about(fact: Fact, known: Fact) -> str:
    named = hashlib.sha256(key_of(fact.subject).encode()).hexdigest()[:24]
    return f"repeated:{known.pk}:{named}"


def _subjects(known: Fact, alias: SubjectAlias | None) -> list[UUID]:
    keys = [held.subject_id for held in (known.subject_alias, alias) if held is not None]
    return list(dict.fromkeys(keys))


def _details(fact: Fact) -> dict[str, Any]:
    moments = {name: getattr(fact, name) for name in MOMENTS}
    return {name: getattr(fact, name) for name in KEPT} | {
        name: moment.isoformat() if moment else None for name, moment in moments.items()
    }
