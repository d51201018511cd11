"""Asking people whether two subjects are the same thing. Nothing is merged by it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from identity.principal import Principal
from memory.models import MemoryReview, Subject, SubjectAlias
from memory.search.index_tables import AGENT_UNINDEXED
from memory.services.reviews.opening import reviews_open
from memory.subjects.likeness import Likeness, blocks_wanted, likeness

BY = Principal.of_system("subjects")
LOOKED_AT = 60
"""Spellings of one memory that share a mark with a new one are compared up to so many."""
MAX_QUESTIONS = 3
"""Questions that one new subject raises at most, the likeliest first."""

_COLUMNS = [field.attname for field in Subject._meta.concrete_fields]
_SHARING = f"""
SELECT asked.place, alias.spelling, {", ".join(f"subject.{name}" for name in _COLUMNS)}
FROM unnest(%(subjects)s::uuid[], %(blocks)s::text[]) WITH ORDINALITY AS asked (subject_id, blocks, place)
CROSS JOIN LATERAL (
    SELECT id, subject_id, spelling, created_at FROM (
        SELECT id, agent_id, persona, subject_id, spelling, created_at FROM memory_subjectalias
        WHERE {AGENT_UNINDEXED} = %(agent)s AND blocks && asked.blocks::bigint[] OFFSET 0
    ) AS sharing
    WHERE agent_id = %(agent)s AND persona = %(persona)s AND subject_id <> asked.subject_id
    ORDER BY created_at, id LIMIT %(limit)s
) AS alias JOIN memory_subject AS subject ON subject.id = alias.subject_id AND subject.agent_id = %(agent)s
ORDER BY asked.place, alias.created_at, alias.id
"""  # noqa: S608  (columns of a model)

# Looked for by marks alone, which are one memory's own: while no statistics tell yet how the table has grown, all of an
# agent's would be read for each of many.
_BY_MARKS = "SELECT set_config('enable_seqscan', %s, true)"


class Spelled(NamedTuple):
    """A subject with one of its spellings."""

    subject: Subject
    spelling: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A subject that may be the one in question, and why."""

    subject: Subject
    spelling: str
    likeness: Likeness


def subject_questions(subjects: Sequence[Subject], aliases: Sequence[SubjectAlias]) -> list[MemoryReview]:
    """What to ask about new subjects of one memory, in their order, each known by one of `aliases`: whether it is a
    known one, or one of those before it. Called before they are stored; the drafts are opened afterwards."""
    if not subjects:
        return []
    spelled = {alias.subject_id: alias.spelling for alias in reversed(aliases)}
    known = _sharing_blocks([(subject, spelled[subject.pk]) for subject in subjects])
    drafts = []
    for subject, rows in zip(subjects, known, strict=True):
        wanted = set(blocks_wanted(subject.agent_id, subject.persona, spelled[subject.pk]))
        for alias in aliases:
            if alias.subject_id == subject.pk:
                break
            if not wanted.isdisjoint(alias.blocks):
                rows.append(Spelled(alias.subject, alias.spelling))
        drafts += [
            _question_draft(
                each.subject,
                subject,
                each.likeness.score,
                [(each.likeness.code, each.likeness.words, each.spelling, spelled[subject.pk])],
            )
            for each in _likeliest(subject, spelled[subject.pk], rows[:LOOKED_AT])[:MAX_QUESTIONS]
        ]
    return drafts


def subject_questions_open(drafts: Sequence[MemoryReview]) -> list[MemoryReview]:
    """Ask what `subject_questions` found; returns what was never asked before."""
    return reviews_open(drafts, by=BY)


def candidates_of(subject: Subject, spelling: str, most: int = MAX_QUESTIONS) -> list[Candidate]:
    """Subjects of the same memory with a spelling like `spelling`, the likeliest first. Read from an index: the cost
    does not grow with the number of subjects."""
    (rows,) = _sharing_blocks([(subject, spelling)])
    return _likeliest(subject, spelling, rows)[:most]


def _sharing_blocks(asked: Sequence[tuple[Subject, str]]) -> list[list[Spelled]]:
    """For each of these subjects of one memory with a spelling, the first known spellings of others that share a mark
    with it."""
    memory = asked[0][0]
    wanted = [blocks_wanted(memory.agent_id, memory.persona, spelling) for _, spelling in asked]
    with connection.cursor() as cursor:
        if len(asked) > 1:
            cursor.execute(_BY_MARKS, ["off"])
        cursor.execute(
            _SHARING,
            {
                "agent": memory.agent_id,
                "persona": memory.persona,
                "limit": LOOKED_AT,
                "subjects": [subject.pk for subject, _ in asked],
                "blocks": [f"{{{','.join(map(str, blocks))}}}" for blocks in wanted],
            },
        )
        found = cursor.fetchall()
        if len(asked) > 1:
            cursor.execute(_BY_MARKS, ["on"])
    rows: list[list[Spelled]] = [[] for _ in asked]
    for place, spelling, *values in found:
        subject = Subject.from_db(connection.alias, _COLUMNS, values)
        subject.agent = memory.agent
        rows[place - 1].append(Spelled(subject, spelling))
    return rows


def _likeliest(subject: Subject, spelling: str, rows: Iterable[Spelled]) -> list[Candidate]:
    best: dict[UUID, Candidate] = {}
    for row in rows:
        found = likeness(spelling, row.spelling)
        if found is None or _kinds_differ(subject, row.subject):
            continue
        key = row.subject.pk
        if key not in best or found.score > best[key].likeness.score:
            best[key] = Candidate(row.subject, row.spelling, found)
    return sorted(best.values(), key=lambda each: (-each.likeness.score, each.subject.created_at, each.spelling))


def _kinds_differ(one: Subject, other: Subject) -> bool:
    return Subject.Kind.OTHER not in (one.kind, other.kind) and one.kind != other.kind


def subject_question_open(
    *, older: Subject, newer: Subject, score: float, reasons: Iterable[tuple[str, str, str, str]]
) -> MemoryReview | None:
    """Ask whether two subjects are the same thing; None when people were asked before. `reasons` have a code, words,
    and what of each of the two they quote."""
    return next(iter(reviews_open([_question_draft(older, newer, score, reasons)], by=BY)), None)


def _question_draft(
    older: Subject, newer: Subject, score: float, reasons: Iterable[tuple[str, str, str, str]]
) -> MemoryReview:
    return MemoryReview(
        agent=newer.agent,
        persona=newer.persona,
        kind=MemoryReview.Kind.SAME_SUBJECT,
        about=pair_about(older.pk, newer.pk),
        subject=newer.name,
        subjects=[older.pk, newer.pk],
        score=round(score, 4),
        reasons=[{"code": code, "words": words, "old": old, "new": new} for code, words, old, new in reasons],
    )


def pair_about(one: UUID, other: UUID) -> str:
    """What a question about two subjects is about, whichever of them is named first."""
    return "subjects:" + ":".join(sorted([str(one), str(other)]))
