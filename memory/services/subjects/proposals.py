"""Reviews of whether two subjects are the same. Opening one merges nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from identity.principal import Principal
from memory.models import MemoryReview, Subject
from memory.search.index_tables import agent_unindexed
from memory.services.reviews.open_review import reviews_open
from memory.subjects.name_similarity import Likeness, blocks_wanted, likeness
from nousweb.lib.transactions import sql_rows

BY = Principal.of_system("subjects")
MAX_COMPARED = 60
"""Maximum number of aliases of one memory that share a block with a new one and are compared with it."""
MAX_REVIEWS_PER_SUBJECT = 3
"""Maximum number of reviews of one new subject, the most similar subjects first."""

_COLUMNS = [field.attname for field in Subject._meta.concrete_fields]
_SHARING = f"""
SELECT alias.spelling, {", ".join(f"subject.{name}" for name in _COLUMNS)}
FROM (
    SELECT id, subject_id, spelling, created_at FROM (
        SELECT id, agent_id, persona, subject_id, spelling, created_at FROM memory_subjectalias
        WHERE {{agent}} = %(agent)s AND blocks && %(blocks)s::bigint[] OFFSET 0
    ) AS sharing
    WHERE agent_id = %(agent)s AND persona = %(persona)s AND subject_id <> %(subject)s
    ORDER BY created_at, id LIMIT {MAX_COMPARED}
) AS alias JOIN memory_subject AS subject ON subject.id = alias.subject_id AND subject.agent_id = %(agent)s
ORDER BY alias.created_at, alias.id
"""  # noqa: S608  (columns of a model)


class SubjectAliasMatch(NamedTuple):
    """A subject with one of its aliases."""

    subject: Subject
    spelling: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A subject that may be the same as another one: with its most similar alias, and why."""

    subject: Subject
    spelling: str
    likeness: Likeness


def subject_reviews_open(subject: Subject, spelling: str) -> None:
    """Ask people whether a new subject is the same as stored ones that are like it."""
    drafts = []
    for candidate in similar_subjects(subject, spelling):
        reason = (candidate.likeness.code, candidate.likeness.words, candidate.spelling, spelling)
        drafts.append(_review_draft(candidate.subject, subject, candidate.likeness.score, [reason]))
    reviews_open(drafts, by=BY)


def similar_subjects(subject: Subject, spelling: str) -> list[Candidate]:
    """The subjects of the same memory with an alias most like `spelling`, the most similar first. It uses an index, so
    the cost does not grow with the number of subjects."""
    asked: dict[str, Any] = {
        "agent": subject.agent_id,
        "persona": subject.persona,
        "subject": subject.pk,
        "blocks": list(blocks_wanted(subject.agent_id, subject.persona, spelling)),
    }
    rows = []
    for alias_spelling, *values in sql_rows(_SHARING.format(agent=agent_unindexed()), asked):
        similar = Subject.from_db(connection.alias, _COLUMNS, values)
        similar.agent = subject.agent
        rows.append(SubjectAliasMatch(similar, alias_spelling))
    return _likeliest(subject, spelling, rows)[:MAX_REVIEWS_PER_SUBJECT]


def _likeliest(subject: Subject, spelling: str, rows: Iterable[SubjectAliasMatch]) -> list[Candidate]:
    best: dict[UUID, Candidate] = {}
    for row in rows:
        score = likeness(spelling, row.spelling)
        if score is None or _kinds_differ(subject, row.subject):
            continue
        key = row.subject.pk
        if key not in best or score.score > best[key].likeness.score:
            best[key] = Candidate(row.subject, row.spelling, score)
    return sorted(best.values(), key=lambda each: (-each.likeness.score, each.subject.created_at, each.spelling))


def _kinds_differ(one: Subject, other: Subject) -> bool:
    return Subject.Kind.OTHER not in (one.kind, other.kind) and one.kind != other.kind


def open_subject_review(
    *, older: Subject, newer: Subject, score: float, reasons: Iterable[tuple[str, str, str, str]]
) -> MemoryReview | None:
    """Open the review of whether two subjects are the same; None if it was opened before. Each of `reasons` has a code,
    words, and a quote from the older and the newer subject."""
    return next(iter(reviews_open([_review_draft(older, newer, score, reasons)], by=BY)), None)


def _review_draft(
    older: Subject, newer: Subject, score: float, reasons: Iterable[tuple[str, str, str, str]]
) -> MemoryReview:
    return MemoryReview(
        agent=newer.agent,
        persona=newer.persona,
        kind=MemoryReview.Kind.SAME_SUBJECT,
        about=subject_pair_review_key(older.pk, newer.pk),
        subject=newer.name,
        subjects=[older.pk, newer.pk],
        score=round(score, 4),
        reasons=[{"code": code, "words": words, "old": old, "new": new} for code, words, old, new in reasons],
    )


def subject_pair_review_key(one: UUID, other: UUID) -> str:
    """The key (`MemoryReview.about`) of the review of two subjects, in either order."""
    return "subjects:" + ":".join(sorted([str(one), str(other)]))
