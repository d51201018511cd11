"""The registry of subjects: look up aliases when facts are compared, and enter them when a fact is stored.

It is used under the learning lock of the memory, so no spelling is entered twice. A spelling that certainly means the
same as a registered one becomes an alias of that subject; one that may mean the same opens a review.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db import connection

from identity.models import Agent
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.comparison.fact_snapshot import FactSnapshot, KnownSubject
from memory.models import Fact, MemoryReview, Subject, SubjectAlias, SubjectChange
from memory.persona import change_check
from memory.policy import SUBJECT_KIND_OF_CATEGORY
from memory.search.index_tables import agent_unindexed
from memory.services.memory_write import learning_lock
from memory.services.reviews.open_review import reviews_open
from memory.services.reviews.states import reviews_settle
from memory.services.search_index.reembedding import dictionary_of
from memory.subjects.name_similarity import (
    Likeness,
    blocks_offered,
    blocks_wanted,
    is_users,
    key_of,
    likeness,
    meaning_of,
)
from nousweb.lib import Conflict, Invalid, NotFound
from nousweb.lib.prepared_statements import columns_of, instance_of, rows_prepared
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
    best: dict[UUID, Candidate] = {}
    for alias_spelling, *values in sql_rows(_SHARING.format(agent=agent_unindexed()), asked):
        similar = Subject.from_db(connection.alias, _COLUMNS, values)
        similar.agent = subject.agent
        kinds_differ = Subject.Kind.OTHER not in (subject.kind, similar.kind) and subject.kind != similar.kind
        score = None if kinds_differ else likeness(spelling, alias_spelling)
        if score and (similar.pk not in best or score.score > best[similar.pk].likeness.score):
            best[similar.pk] = Candidate(similar, alias_spelling, score)
    ranked = sorted(best.values(), key=lambda each: (-each.likeness.score, each.subject.created_at, each.spelling))
    return ranked[:MAX_REVIEWS_PER_SUBJECT]


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


Kind = Subject.Kind
Origin = SubjectAlias.Origin

MAX_ALIASES_PER_SPELLING = 20


_ALIASES = f"""
SELECT {columns_of(SubjectAlias, "alias")}, {columns_of(Subject, "subject")}
FROM {SubjectAlias._meta.db_table} AS alias JOIN {Subject._meta.db_table} AS subject
    ON subject.id = alias.subject_id AND subject.agent_id = alias.agent_id
WHERE alias.agent_id = %(agent)s AND alias.persona = %(persona)s
    AND (alias.key = %(key)s::text OR alias.meaning = %(meaning)s::text)
ORDER BY alias.created_at, alias.id LIMIT {MAX_ALIASES_PER_SPELLING}
"""  # noqa: S608


def alias_find(*, agent: Agent, persona: str, spelling: str) -> SubjectAlias | None:
    """The alias, with its subject, that equals `spelling` or certainly means the same; None if there is none, or if
    several subjects are possible."""
    key = key_of(spelling)
    if not key:
        return None
    asked = {"agent": agent.pk, "persona": persona, "key": key, "meaning": meaning_of(spelling)}
    width = len(SubjectAlias._meta.concrete_fields)
    aliases = []
    for row in rows_prepared(_ALIASES, asked):
        alias = instance_of(SubjectAlias, row[:width])
        alias.subject = instance_of(Subject, row[width:])
        if alias.key == key:
            return alias
        aliases.append(alias)
    return aliases[0] if len({alias.subject_id for alias in aliases}) == 1 else None


def alias_enter(*, agent: Agent, persona: str, spelling: str, by: Principal, category: str = "") -> SubjectAlias | None:
    """The alias of `spelling`; if there is none, a new one of the subject that it certainly means, or of a new one. A
    new subject like another one opens a review. None if the spelling is empty."""
    key = key_of(spelling)
    if not key:
        return None
    known = alias_find(agent=agent, persona=persona, spelling=spelling)
    if known is not None and known.key == key:
        return known
    if known is not None:
        alias = _alias_add(known.subject, spelling)
        summary = f"“{spelling}” was added to “{known.subject.name}” automatically: it certainly means the same."
        subject_change_record(
            known.subject, SubjectChange.Action.ALIAS, by, summary=summary, details={"alias": str(alias.pk)}
        )
        return alias
    user = is_users(spelling)
    if user and (subject := Subject.objects.filter(agent=agent, persona=persona, is_user=True).first()) is not None:
        return _alias_add(subject, spelling)
    kind = Kind.PERSON if user else SUBJECT_KIND_OF_CATEGORY.get(category, Kind.OTHER)
    subject = Subject.objects.create(agent=agent, persona=persona, name=spelling, kind=kind, is_user=user)
    alias = _alias_add(subject, spelling)
    subject_change_record(
        subject, SubjectChange.Action.CREATED, by, summary=f"“{spelling}” was named for the first time."
    )
    subject_reviews_open(subject, spelling)
    return alias


def _alias_add(subject: Subject, spelling: str) -> SubjectAlias:
    alias = alias_draft(subject, spelling, Origin.SEEN)
    alias.save(force_insert=True)
    return alias


def alias_draft(subject: Subject, spelling: str, origin: SubjectAlias.Origin) -> SubjectAlias:
    """Build an unsaved alias."""
    return SubjectAlias(
        agent=subject.agent,
        persona=subject.persona,
        subject=subject,
        spelling=spelling,
        key=key_of(spelling),
        meaning=meaning_of(spelling),
        origin=origin,
        dictionary=dictionary_of(subject.agent_id),
        blocks=blocks_offered(subject.agent_id, subject.persona, spelling),
    )


def alias_give(subject: Subject, spelling: str, details: dict[str, Any]) -> SubjectAlias:
    """The alias that a person gives a subject; a new one is named in `details` as "made".

    Raises Invalid, or Conflict for that of another subject.
    """
    key = key_of(spelling)
    if not key:
        raise Invalid("Enter a name with visible characters.", field="name")
    rows = SubjectAlias.objects.filter(agent=subject.agent_id, persona=subject.persona, key=key)
    known = rows.select_related("subject").first()
    if known is not None and known.subject_id != subject.pk:
        raise Conflict(
            f"“{spelling}” is a spelling of “{known.subject.name}”: merge the two if they are the same subject.",
            subject=str(known.subject_id),
        )
    if known is not None:
        return known
    alias = alias_draft(subject, spelling, Origin.GIVEN)
    alias.save(force_insert=True)
    details["made"] = str(alias.pk)
    return alias


VIEW = "memory.view_fact"
CHANGE = "memory.change_fact"
"""Subjects are seen by whoever sees facts, and changed by people who may change them; no token can."""


def subjects_lock(subject: Subject, *others: Subject, by: Principal) -> list[Subject]:
    """The subjects as they stand, locked until the transaction ends; whoever learns for this memory waits.

    Raises NotAllowed, NotFound for one that is gone or of another memory, Conflict for one that another has taken up.
    """
    change_check(subject, by, CHANGE)
    learning_lock(subject.agent, subject.persona)
    keys = [subject.pk, *(other.pk for other in others)]
    rows = Subject.objects.select_for_update(of=("self",), no_key=True).select_related("agent", "merged_into")
    rows = rows.filter(agent=subject.agent_id, persona=subject.persona, pk__in=keys)
    found = {row.pk: row for row in rows.order_by("pk")}
    if any(key not in found for key in keys):
        raise NotFound("There is no such subject.")
    for row in found.values():
        if row.merged_into is not None:
            raise Conflict(
                f"“{row.name}” has been merged into “{row.merged_into.name}”.", subject=str(row.merged_into_id)
            )
    return [found[key] for key in keys]


def aliases_of(subject: Subject) -> list[SubjectAlias]:
    """The spellings of a subject, the oldest first."""
    return list(SubjectAlias.objects.filter(agent=subject.agent_id, subject=subject))


Action = SubjectChange.Action


def subject_change_record(
    subject: Subject,
    action: SubjectChange.Action,
    by: Principal,
    *,
    summary: str,
    other: Subject | None = None,
    reason: str = "",
    details: Mapping[str, Any] | None = None,
    before: Any = None,
    after: Mapping[str, Any] | None = None,
) -> SubjectChange:
    """Record a change of a subject in its history and in the audit trail.

    `summary`: what changed, in plain words. `details`: data for undoing it. `before`, `after`: for the audit record.
    """
    change = SubjectChange.objects.create(
        agent=subject.agent,
        persona=subject.persona,
        subject=subject,
        other=other,
        action=action,
        summary=summary,
        reason=reason,
        details=dict(details or {}),
        author_kind=by.kind,
        author_id=by.id,
        author_name=by.name,
    )
    audit_record(
        by=by,
        action=f"subject.{AUDITED[action]}",
        target=subject,
        agent=subject.agent,
        before=before,
        after={"change": summary, **(after or {})},
        message=reason,
    )
    if action in (Action.MERGED, Action.SPLIT):
        keys = [changed.pk for changed in (subject, other) if changed is not None]
        reviews_settle(agent_id=subject.agent_id, subjects=keys)
    return change


AUDITED = {
    Action.CREATED: "create",
    Action.ALIAS: "alias_add",
    Action.EDITED: "edit",
    Action.MERGED: "merge",
    Action.SPLIT: "split",
}
"""The audit trail's verb of each action."""


def quoted(names: Collection[str]) -> str:
    """Names in quotation marks for a sentence; only the first five, and the number of the others."""
    shown = [f"“{name}”" for name in list(names)[:5]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def pair_snapshots(old: Fact, new: Fact) -> tuple[FactSnapshot, FactSnapshot]:
    """Snapshots of two facts of one agent."""
    subjects = known_subjects_of(new.agent_id, [old, new])
    return snapshot_of(old, subjects), snapshot_of(new, subjects)


def snapshot_of(fact: Fact, subjects: Mapping[UUID, KnownSubject] = MappingProxyType({})) -> FactSnapshot:
    """Build the snapshot of a fact, stored or not, for comparison and for a judge; `subjects` are by alias id."""
    subject = subjects.get(fact.subject_alias_id) if fact.subject_alias_id else None
    moment = fact.valid_from or fact.recorded_at
    return FactSnapshot(
        fact.content, fact.subject, fact.category, moment, subject, fact.attribute, fact.value, fact.valid_from,
        fact.recorded_at,
    )  # fmt: skip


# Each table is read once, and not again for each row of another: the planner has no statistics of a memory that was
# filled a moment ago, and would read all subjects once for each of them.
_SPELLINGS = """
WITH named AS MATERIALIZED (
    SELECT alias.subject_id FROM memory_subjectalias AS alias
    WHERE alias.agent_id = %(agent)s AND alias.id = ANY (%(keys)s::uuid[])
), subject AS MATERIALIZED (
    SELECT subject.id, subject.name FROM memory_subject AS subject
    WHERE subject.agent_id = %(agent)s AND subject.id = ANY (ARRAY(SELECT subject_id FROM named))
)
SELECT alias.id, alias.subject_id, subject.name, alias.spelling
FROM memory_subjectalias AS alias JOIN subject ON subject.id = alias.subject_id
WHERE alias.agent_id = %(agent)s AND alias.subject_id = ANY (ARRAY(SELECT subject_id FROM named))
ORDER BY alias.created_at, alias.id
"""


def known_subjects_of(agent_id: int, facts: Collection[Fact]) -> dict[UUID, KnownSubject]:
    """The registered subjects of these facts with all of their aliases, by alias id. At most one statement."""
    keys = {fact.subject_alias_id for fact in facts if fact.subject_alias_id}
    if not keys:
        return {}
    spellings: dict[UUID, list[str]] = {}
    rows = []
    for pk, subject_id, name, spelling in rows_prepared(_SPELLINGS, {"agent": agent_id, "keys": [*keys]}):
        spellings.setdefault(subject_id, []).append(spelling)
        rows.append((pk, subject_id, name))
    return {
        pk: KnownSubject(subject_id, name, tuple(spellings[subject_id])) for pk, subject_id, name in rows if pk in keys
    }
