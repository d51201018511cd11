"""Changes of subjects: create, edit, merge, split, and undo of any. A merge moves aliases; facts are not changed."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import transaction

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import MAX_SPELLING_CHARACTERS, Fact, Subject, SubjectAlias, SubjectChange
from memory.policy import MAX_FACTS_OF_SPLIT, MAX_REMARK_CHARACTERS
from memory.services.memory_write import learning_lock
from memory.services.reviews.states import reviews_settle
from memory.services.subjects.registry import (
    CHANGE,
    Action,
    alias_draft,
    alias_find,
    alias_give,
    aliases_of,
    quoted,
    subject_change_record,
    subject_reviews_open,
    subjects_lock,
)
from memory.subjects.name_similarity import is_users, key_of
from nousweb.lib import Conflict, Invalid, choice_check, clock, existing, text_check, visible_text_check


def _rows_merge(subject: Subject, into: Subject) -> None:
    was_user = subject.is_user
    subject.put(is_user=False, merged_into=into)
    into.is_user = into.is_user or was_user
    if is_users(into.name) and not is_users(subject.name):
        # A name is more specific than "the user".
        into.name = subject.name
    if into.kind == Subject.Kind.OTHER:
        into.kind = subject.kind
    into.save(update_fields=["is_user", "name", "kind"])
    SubjectAlias.objects.filter(agent=into.agent_id, subject=subject).update(subject=into)


@contextmanager
def subjects_merged_in_dry_run(agent: Agent, pairs: Sequence[tuple[UUID, UUID]]) -> Iterator[None]:
    """Context manager: merge the first subject of each pair into the second, in a transaction that is rolled back (dry
    run). Only this connection sees the merges.

    Subjects that were merged or erased in the meantime are skipped.
    """
    if not pairs:
        yield
        return
    with transaction.atomic():
        rows = Subject.objects.standing().filter(agent=agent, pk__in={key for pair in pairs for key in pair})
        found = {row.pk: row for row in rows}
        for first, second in pairs:
            subject, into = (found.get(key) for key in (first, second))
            while into is not None and into.merged_into is not None:
                into = into.merged_into
            if subject and into and subject.pk != into.pk and subject.merged_into is None:
                _rows_merge(subject, into)
        try:
            yield
        finally:
            transaction.set_rollback(True)


@agent_transaction(of="subject")
def subject_merge(*, subject: Subject, into: Subject, by: Principal, reason: str = "") -> SubjectChange:
    """Merge `subject` into `into`; returns the change, with which it can be undone. People only.

    Raises Conflict if either is merged already, Invalid for the same subject or one of another memory, NotAllowed,
    NotFound.
    """
    if subject.pk == into.pk:
        raise Invalid("A subject can be merged only into another one.", field="into")
    if (subject.agent_id, subject.persona) != (into.agent_id, into.persona):
        raise Invalid("Both subjects must belong to the same memory.", field="into")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    subject, into = subjects_lock(subject, into, by=by)
    moved = aliases_of(subject)
    details: dict[str, Any] = {
        "aliases": [str(alias.pk) for alias in moved],
        "name": into.name,
        "kind": into.kind,
        "is_user": into.is_user,
        "was_user": subject.is_user,
    }
    _rows_merge(subject, into)
    spellings = [alias.spelling for alias in moved]
    return subject_change_record(
        into,
        SubjectChange.Action.MERGED,
        by,
        other=subject,
        summary=f"“{subject.name}” was merged into “{details['name']}”, with {quoted(spellings)}.",
        reason=reason,
        details=details,
        before={"subject": str(subject.pk), "name": subject.name},
        after={"into": str(into.pk), "name": into.name},
    )


@agent_transaction(of="subject")
def subject_split(
    *,
    subject: Subject,
    by: Principal,
    aliases: Collection[UUID] = (),
    facts: Collection[UUID] = (),
    name: str = "",
    reason: str = "",
) -> SubjectChange:
    """Let these spellings, and these facts, be about another thing called `name`; returns the change, by which it can
    be undone, with the new subject as `other`. Only people.

    Facts with a spelling that stays need a `name` that is none of this memory's spellings; what is learned later with
    that spelling is about the old subject. Raises Invalid where nothing or everything would go, Conflict for a name
    that is taken or a subject that has been merged, NotAllowed, NotFound.
    """
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    name = visible_text_check("name", name, MAX_SPELLING_CHARACTERS)
    if not aliases and not facts:
        raise Invalid("Name the spellings or the facts of the other subject.", field="aliases")
    if len(facts) > MAX_FACTS_OF_SPLIT:
        raise Invalid(f"At most {MAX_FACTS_OF_SPLIT} facts at a time; name a spelling instead.", field="facts")
    (subject,) = subjects_lock(subject, by=by)
    held = aliases_of(subject)
    moved = [alias for alias in held if alias.pk in set(aliases)]
    if len(moved) < len(set(aliases)):
        raise Invalid("One of these is not a spelling of this subject.", field="aliases")
    if len(moved) == len(held):
        raise Invalid("At least one spelling must stay. To change the name of the subject, rename it.", field="aliases")
    rows = Fact.objects.filter(agent=subject.agent_id, subject_alias__in=held, pk__in=facts)
    chosen = list(rows.select_for_update(of=("self",), no_key=True).order_by("pk"))
    if len(chosen) < len(set(facts)):
        raise Invalid("One of these facts is not about this subject.", field="facts")
    if chosen and not name:
        raise Invalid("Enter the name of the subject that the facts are about.", field="name")
    other = Subject.objects.create(
        agent=subject.agent,
        persona=subject.persona,
        name=name or moved[0].spelling,
        kind=subject.kind,
    )
    details: dict[str, Any] = {"aliases": [str(alias.pk) for alias in moved], "facts": {}}
    SubjectAlias.objects.filter(agent=subject.agent_id, pk__in=[alias.pk for alias in moved]).update(subject=other)
    if name:
        named = alias_give(other, name, details)
        if chosen:
            details["facts"] = {str(fact.pk): str(fact.subject_alias_id) for fact in chosen}
            Fact.objects.filter(agent=subject.agent_id, pk__in=[fact.pk for fact in chosen]).update(subject_alias=named)
    spelled = quoted([alias.spelling for alias in moved])
    said = [f"the spelling{'s' if len(moved) > 1 else ''} {spelled}"] if moved else []
    said += [f"{len(chosen):,} fact{'s' if len(chosen) > 1 else ''}"] if chosen else []
    return subject_change_record(
        subject,
        SubjectChange.Action.SPLIT,
        by,
        other=other,
        summary=f"“{other.name}” was split from “{subject.name}”, with {' and '.join(said)}.",
        reason=reason,
        details=details,
        before={"subject": str(subject.pk), "name": subject.name},
        after={"other": str(other.pk), "name": other.name},
    )


@agent_transaction(of="change")
def subject_change_undo(*, change: SubjectChange, by: Principal, reason: str = "") -> SubjectChange:
    """Undo a merge, a split, a spelling or an edit. Only people.

    What came with the spellings of a merge goes back with them, also what was learned since. Raises Conflict where it
    has been undone, or what it changed has been changed since, NotAllowed, NotFound.
    """
    changes = SubjectChange.objects.select_related("subject__agent", "subject__merged_into")
    found = existing(changes.filter(agent=change.agent_id, pk=change.pk).first(), "There is no such change.")
    (subject,) = subjects_lock(found.subject, by=by)
    # Read again, under the lock.
    change = SubjectChange.objects.select_related("other").get(agent=found.agent_id, pk=found.pk)
    if change.undone_at is not None:
        raise Conflict("This change has already been undone.")
    if change.action not in UNDO:
        raise Conflict("The first naming of a subject cannot be undone.")
    UNDO[change.action](subject, change)
    change.put(undone_at=clock.now())
    reviews_settle(agent_id=subject.agent_id, subjects=[subject.pk, *filter(None, [change.other_id])])
    audit_record(
        by=by,
        action="subject.undo",
        target=subject,
        agent=subject.agent,
        before={"change": change.summary},
        after={"change": f"Undone: {change.summary}"},
        message=reason,
    )
    return change


def _merge_undo(subject: Subject, change: SubjectChange) -> None:
    other = change.other
    if other is None or other.merged_into_id != subject.pk:
        raise Conflict("The merged subject has been changed since then.")
    keys = _still_there(subject, change.details["aliases"])
    details = change.details
    Subject.objects.filter(agent=subject.agent_id, pk=subject.pk).update(
        name=details["name"], kind=details["kind"], is_user=subject.is_user and details["is_user"]
    )
    is_user = details["was_user"] and not _is_there_a_user(subject)
    Subject.objects.filter(agent=subject.agent_id, pk=other.pk).update(merged_into=None, is_user=is_user)
    SubjectAlias.objects.filter(agent=subject.agent_id, pk__in=keys).update(subject=other)


def _split_undo(subject: Subject, change: SubjectChange) -> None:
    other = change.other
    if other is None or other.merged_into_id is not None:
        raise Conflict("The split-off subject has been changed since then.")
    _still_there(other, change.details["aliases"])
    for fact_id, alias_id in change.details.get("facts", {}).items():
        Fact.objects.filter(agent=subject.agent_id, pk=fact_id).update(subject_alias=alias_id)
    # With what it was called since.
    SubjectAlias.objects.filter(agent=subject.agent_id, subject=other).update(subject=subject)
    Subject.objects.filter(agent=subject.agent_id, pk=other.pk).update(merged_into=subject, is_user=False)
    if made := change.details.get("made"):
        _unused_remove(subject, UUID(made))


def _alias_undo(subject: Subject, change: SubjectChange) -> None:
    (key,) = _still_there(subject, [change.details["alias"]])
    if Fact.objects.filter(agent=subject.agent_id, subject_alias=key).exists():
        raise Conflict("Facts use this spelling: split it off instead.")
    _unused_remove(subject, key)


def _edit_undo(subject: Subject, change: SubjectChange) -> None:
    before = dict(change.details["before"])
    if before.get("is_user") and _is_there_a_user(subject):
        raise Conflict("Another subject has been marked as the user since then.")
    Subject.objects.filter(agent=subject.agent_id, pk=subject.pk).update(**before)
    if (was := change.details.get("user")) and not _is_there_a_user(subject):
        Subject.objects.filter(agent=subject.agent_id, pk=was, merged_into=None).update(is_user=True)
    if made := change.details.get("made"):
        _unused_remove(subject, UUID(made))


UNDO: Mapping[str, Callable[[Subject, SubjectChange], None]] = {
    Action.MERGED: _merge_undo,
    Action.SPLIT: _split_undo,
    Action.ALIAS: _alias_undo,
    Action.EDITED: _edit_undo,
}
"""How each action is undone; how a subject was first named is not."""


def _still_there(subject: Subject, keys: list[str]) -> list[UUID]:
    """The spellings, if all of them are still this subject's. Raises Conflict."""
    wanted = [UUID(key) for key in keys]
    rows = SubjectAlias.objects.filter(agent=subject.agent_id, subject=subject, pk__in=wanted)
    if rows.count() < len(wanted):
        raise Conflict("A spelling of this change has been moved since then. Undo that change first.")
    return wanted


def _is_there_a_user(subject: Subject) -> bool:
    return Subject.objects.filter(agent=subject.agent_id, persona=subject.persona, is_user=True).exists()


def _unused_remove(subject: Subject, key: UUID) -> None:
    """Forget a spelling that no fact has, unless it is the only one."""
    alias = SubjectAlias.objects.filter(agent=subject.agent_id, pk=key).first()
    if alias is None or Fact.objects.filter(agent=subject.agent_id, subject_alias=alias).exists():
        return
    if SubjectAlias.objects.filter(agent=subject.agent_id, subject=alias.subject_id).count() > 1:
        alias.delete()


@agent_transaction(of="subject")
def subject_edit(
    *,
    subject: Subject,
    by: Principal,
    name: str | None = None,
    kind: str | None = None,
    is_user: bool | None = None,
    reason: str = "",
) -> Subject:
    """Change how a subject is called by people, what kind of thing it is, and whether it is the user; None leaves
    something as it is. Only people.

    A name becomes a spelling too. Whoever is marked as the user takes the mark from any other: to let both be one,
    merge them. Raises Conflict for a name of another subject, Invalid, NotAllowed, NotFound.
    """
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    (subject,) = subjects_lock(subject, by=by)
    given: dict[str, Any] = {}
    details: dict[str, Any] = {}
    if name is not None:
        given["name"] = visible_text_check("name", name, MAX_SPELLING_CHARACTERS, required=True)
        alias_give(subject, given["name"], details)
    if kind is not None:
        given["kind"] = choice_check("kind", kind, Subject.Kind.values)
    if is_user is not None:
        given["is_user"] = is_user
    before = {field: getattr(subject, field) for field in given if getattr(subject, field) != given[field]}
    after = {field: given[field] for field in before}
    if not before:
        return subject
    if after.get("is_user"):
        details["user"] = _user_take(subject, by, reason)
    subject.put(**after)
    subject_change_record(
        subject,
        SubjectChange.Action.EDITED,
        by,
        summary=_summary_of(subject, before, after),
        reason=reason,
        details={"before": before, **details},
        before=before,
        after=after,
    )
    return subject


@agent_transaction(of="subject")
def subject_alias_add(*, subject: Subject, spelling: str, by: Principal, reason: str = "") -> SubjectAlias:
    """Let `spelling` mean this subject from now on. Only people.

    Raises Conflict where it means another subject already: these are merged instead.
    """
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    spelling = visible_text_check("spelling", spelling, MAX_SPELLING_CHARACTERS, required=True)
    (subject,) = subjects_lock(subject, by=by)
    details: dict[str, Any] = {}
    alias = alias_give(subject, spelling, details)
    if "made" in details:
        subject_change_record(
            subject,
            SubjectChange.Action.ALIAS,
            by,
            summary=f"“{spelling}” was added as a name of “{subject.name}”.",
            reason=reason,
            details={"alias": str(alias.pk)},
        )
    return alias


def _user_take(subject: Subject, by: Principal, reason: str = "") -> str:
    """Make `subject` the user, and nobody else of its memory; returns the key of who was, or ""."""
    others = Subject.objects.filter(agent=subject.agent_id, persona=subject.persona, is_user=True)
    was = others.exclude(pk=subject.pk).first()
    if was is not None:
        Subject.objects.filter(agent=subject.agent_id, pk=was.pk).update(is_user=False)
        audit_record(
            by=by,
            action="subject.edit",
            target=was,
            agent=subject.agent,
            before={"is_user": True},
            after={"is_user": False, "user": str(subject.pk)},
            message=reason,
        )
    Subject.objects.filter(agent=subject.agent_id, pk=subject.pk).update(is_user=True)
    return str(was.pk) if was else ""


def _summary_of(subject: Subject, before: dict[str, Any], after: dict[str, Any]) -> str:
    said = []
    if "name" in after:
        said.append(f"“{before['name']}” is called “{after['name']}”")
    if "kind" in after:
        said.append(f"its kind is {Subject.Kind(after['kind']).label.lower()}")
    if "is_user" in after:
        said.append("it is the user" if after["is_user"] else "it is not the user")
    text = ", ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if "name" in after else f"“{subject.name}”: {text}."


@agent_transaction()
def subject_create(
    *,
    agent: Agent,
    name: str,
    by: Principal,
    persona: str = Persona.ACTOR,
    kind: str = Subject.Kind.OTHER,
    is_user: bool = False,
) -> Subject:
    """Enter a subject called `name` in the memory of `persona`. Only people.

    Raises Conflict where a spelling certainly means a known subject, Invalid, NotAllowed.
    """
    by.require(CHANGE, agent)
    if persona != by.persona:
        by.require(VIEW_SUBCONSCIOUS, agent)
    choice_check("persona", persona, Persona.values)
    choice_check("kind", kind, Subject.Kind.values)
    name = visible_text_check("name", name, MAX_SPELLING_CHARACTERS, required=True)
    if not key_of(name):
        raise Invalid("Enter a name with visible characters.", field="name")
    learning_lock(agent, persona)
    known = alias_find(agent=agent, persona=persona, spelling=name)
    if known is not None:
        raise Conflict(f"“{name}” is already a name of “{known.subject.name}”.", subject=str(known.subject_id))
    subject = Subject.objects.create(agent=agent, persona=persona, name=name, kind=kind)
    alias_draft(subject, name, SubjectAlias.Origin.GIVEN).save(force_insert=True)
    subject_change_record(subject, SubjectChange.Action.CREATED, by, summary=f"“{name}” was added.")
    if is_user or is_users(name):
        _user_take(subject, by)
    subject_reviews_open(subject, name)
    return subject
