"""Reviews of whether two subjects are the same. Opening one merges nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from identity.principal import Principal
from memory.models import MemoryReview, Subject, SubjectAlias
from memory.search.index_tables import agent_unindexed
from memory.services.reviews.open_review import reviews_open
from memory.subjects.name_similarity import Likeness, blocks_wanted, likeness

BY = Principal.of_system("subjects")
MAX_COMPARED = 60
"""Maximum number of aliases of one memory that share a block with a new one and are compared with it."""
MAX_REVIEWS_PER_SUBJECT = 3
"""Maximum number of reviews of one new subject, the most similar subjects first."""

_COLUMNS = [field.attname for field in Subject._meta.concrete_fields]
_SHARING = f"""
SELECT asked.place, alias.spelling, {", ".join(f"subject.{name}" for name in _COLUMNS)}
FROM unnest(%(subjects)s::uuid[], %(blocks)s::text[]) WITH ORDINALITY AS asked (subject_id, blocks, place)
CROSS JOIN LATERAL (
    SELECT id, subject_id, spelling, created_at FROM (
        SELECT id, agent_id, persona, subject_id, spelling, created_at FROM memory_subjectalias
        WHERE {{agent}} = %(agent)s AND blocks && asked.blocks::bigint[] OFFSET 0
    ) AS sharing
    WHERE agent_id = %(agent)s AND persona = %(persona)s AND subject_id <> asked.subject_id
    ORDER BY created_at, id LIMIT %(limit)s
) AS alias JOIN memory_subject AS subject ON subject.id = alias.subject_id AND subject.agent_id = %(agent)s
ORDER BY asked.place, alias.created_at, alias.id
"""  # noqa: S608  (columns of a model)

# Forces the index on blocks, whose values are specific to one memory: with outdated statistics of a growing table, the
# planner would read all aliases of the agent for each of many subjects.
_BY_MARKS = "SELECT set_config('enable_seqscan', %s, true)"


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


def draft_subject_reviews(subjects: Sequence[Subject], aliases: Sequence[SubjectAlias]) -> list[MemoryReview]:
    """Build the reviews of new subjects of one memory: is each the same as a stored subject, or as an earlier one of
    `subjects`? Each subject has one of `aliases`.

    Call it before the subjects are stored, and `open_subject_reviews` afterwards.
    """
    if not subjects:
        return []
    spelling_of = {alias.subject_id: alias.spelling for alias in reversed(aliases)}
    stored = _sharing_blocks([(subject, spelling_of[subject.pk]) for subject in subjects])
    drafts = []
    for subject, rows in zip(subjects, stored, strict=True):
        wanted = set(blocks_wanted(subject.agent_id, subject.persona, spelling_of[subject.pk]))
        for alias in aliases:
            if alias.subject_id == subject.pk:
                break
            if not wanted.isdisjoint(alias.blocks):
                rows.append(SubjectAliasMatch(alias.subject, alias.spelling))
        drafts += [
            _review_draft(
                each.subject,
                subject,
                each.likeness.score,
                [(each.likeness.code, each.likeness.words, each.spelling, spelling_of[subject.pk])],
            )
            for each in _likeliest(subject, spelling_of[subject.pk], rows[:MAX_COMPARED])[:MAX_REVIEWS_PER_SUBJECT]
        ]
    return drafts


def open_subject_reviews(drafts: Sequence[MemoryReview]) -> list[MemoryReview]:
    """Open the reviews of `draft_subject_reviews`; returns those that were not opened before."""
    return reviews_open(drafts, by=BY)


def similar_subjects(subject: Subject, spelling: str, limit: int = MAX_REVIEWS_PER_SUBJECT) -> list[Candidate]:
    """Subjects of the same memory with an alias like `spelling`, the most similar first. It uses an index, so the cost
    does not grow with the number of subjects."""
    (rows,) = _sharing_blocks([(subject, spelling)])
    return _likeliest(subject, spelling, rows)[:limit]


def _sharing_blocks(spelled: Sequence[tuple[Subject, str]]) -> list[list[SubjectAliasMatch]]:
    """For each of these subjects of one memory with a spelling: the oldest aliases of other subjects that share a block
    with it, at most MAX_COMPARED."""
    memory = spelled[0][0]
    wanted = [blocks_wanted(memory.agent_id, memory.persona, spelling) for _, spelling in spelled]
    with connection.cursor() as cursor:
        if len(spelled) > 1:
            cursor.execute(_BY_MARKS, ["off"])
        cursor.execute(
            _SHARING.format(agent=agent_unindexed()),
            {
                "agent": memory.agent_id,
                "persona": memory.persona,
                "limit": MAX_COMPARED,
                "subjects": [subject.pk for subject, _ in spelled],
                "blocks": [f"{{{','.join(map(str, blocks))}}}" for blocks in wanted],
            },
        )
        found = cursor.fetchall()
        if len(spelled) > 1:
            cursor.execute(_BY_MARKS, ["on"])
    rows: list[list[SubjectAliasMatch]] = [[] for _ in spelled]
    for place, spelling, *values in found:
        subject = Subject.from_db(connection.alias, _COLUMNS, values)
        subject.agent = memory.agent
        rows[place - 1].append(SubjectAliasMatch(subject, spelling))
    return rows


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
