"""Edit a subject: its name, its kind, whether it is the user, and its aliases."""

from typing import Any

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import MAX_SPELLING_CHARACTERS, Subject, SubjectAlias, SubjectChange
from memory.policy import MAX_REMARK_CHARACTERS
from memory.services.memory_write import learning_lock
from memory.services.subjects.registry import (
    CHANGE,
    alias_draft,
    alias_find,
    alias_give,
    subject_change_record,
    subject_reviews_open,
    subjects_lock,
)
from memory.subjects.spelling import is_users, key_of
from nousweb.lib import Conflict, Invalid, choice_check, text_check, visible_text_check


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
    for field, value in after.items():
        setattr(subject, field, value)
    subject.save(update_fields=list(after))
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
            summary=f"“{spelling}” is now also a spelling of “{subject.name}”.",
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
