"""Asking people whether two subjects are the same thing. Nothing is merged by it."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from identity.principal import Principal
from memory.models import MemoryReview, Subject, SubjectAlias
from memory.services.reviews.opening import review_open
from memory.subjects.likeness import Likeness, blocks_wanted, likeness

BY = Principal.of_system("subjects")
LOOKED_AT = 60
"""Spellings of one memory that share a mark with a new one are compared up to so many."""
MAX_QUESTIONS = 3
"""Questions that one new subject raises at most, the likeliest first."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A subject that may be the one in question, and why."""

    subject: Subject
    spelling: str
    likeness: Likeness


def subject_questions_open(*, subject: Subject, spelling: str) -> list[MemoryReview]:
    """Ask about the known subjects that `subject`, known by `spelling`, may be; returns what was asked now."""
    found = [
        subject_question_open(
            older=each.subject,
            newer=subject,
            score=each.likeness.score,
            reasons=[(each.likeness.code, each.likeness.words, each.spelling, spelling)],
        )
        for each in candidates_of(subject, spelling)
    ]
    return [review for review in found if review is not None]


def candidates_of(subject: Subject, spelling: str, most: int = MAX_QUESTIONS) -> list[Candidate]:
    """Subjects of the same memory with a spelling like `spelling`, the likeliest first. Read from an index: the cost
    does not grow with the number of subjects."""
    wanted = blocks_wanted(subject.agent_id, subject.persona, spelling)
    rows = (
        SubjectAlias.objects.filter(agent=subject.agent_id, persona=subject.persona, blocks__overlap=wanted)
        .exclude(subject=subject.pk)
        .select_related("subject", "subject__agent")
        .defer("blocks", "lexemes")[:LOOKED_AT]
    )
    best: dict[UUID, Candidate] = {}
    for row in rows:
        found = likeness(spelling, row.spelling)
        if found is None or _kinds_differ(subject, row.subject):
            continue
        if row.subject_id not in best or found.score > best[row.subject_id].likeness.score:
            best[row.subject_id] = Candidate(row.subject, row.spelling, found)
    ranked = sorted(best.values(), key=lambda each: (-each.likeness.score, each.subject.created_at, each.spelling))
    return ranked[:most]


def _kinds_differ(one: Subject, other: Subject) -> bool:
    return Subject.Kind.OTHER not in (one.kind, other.kind) and one.kind != other.kind


def subject_question_open(
    *, older: Subject, newer: Subject, score: float, reasons: Iterable[tuple[str, str, str, str]]
) -> MemoryReview | None:
    """Ask whether two subjects are the same thing; None when people were asked before. `reasons` have a code, words,
    and what of each of the two they quote."""
    return review_open(
        agent=newer.agent,
        persona=newer.persona,
        kind=MemoryReview.Kind.SAME_SUBJECT,
        about=pair_about(older.pk, newer.pk),
        by=BY,
        subject=newer.name,
        subjects=[older.pk, newer.pk],
        score=round(score, 4),
        reasons=[{"code": code, "words": words, "old": old, "new": new} for code, words, old, new in reasons],
    )


def pair_about(one: UUID, other: UUID) -> str:
    """What a question about two subjects is about, whichever of them is named first."""
    return "subjects:" + ":".join(sorted([str(one), str(other)]))
