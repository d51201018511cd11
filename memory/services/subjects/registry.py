"""The registry of subjects: look up aliases when facts are compared, and enter them when a fact is stored.

It is used under the learning lock of the memory, so no spelling is entered twice. A spelling that certainly means the
same as a registered one becomes an alias of that subject; one that may mean the same opens a review.
"""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from identity.models import Agent
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.models import Subject, SubjectAlias, SubjectChange
from memory.persona import change_check
from memory.policy import SUBJECT_KIND_OF_CATEGORY
from memory.services.memory_write import learning_lock
from memory.services.reviews.states import reviews_settle
from memory.services.search_index.agent_languages import dictionary_of
from memory.services.subjects.proposals import subject_reviews_open
from memory.subjects.name_similarity import blocks_offered
from memory.subjects.spelling import is_users, key_of, meaning_of
from nousweb.lib import Conflict, NotFound
from nousweb.lib.prepared_statements import columns_of, instance_of, rows_prepared

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


def aliases_of(subject: Subject, keys: Collection[UUID] | None = None) -> list[SubjectAlias]:
    """The spellings of a subject, the oldest first; only those in `keys`, if given."""
    rows = SubjectAlias.objects.filter(agent=subject.agent_id, subject=subject)
    return list(rows if keys is None else rows.filter(pk__in=keys))


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
    audit: str = "",
) -> SubjectChange:
    """Record a change of a subject in its history and in the audit trail.

    `summary`: what changed, in plain words. `details`: data for undoing it. `before`, `after`: for the audit record.
    `audit`: the audit action, if it is not the one of AUDITED.
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
        action=audit or f"subject.{AUDITED[action]}",
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
