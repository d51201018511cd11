"""Split a subject in two, by some of its aliases or some of its facts."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.models import MAX_SPELLING_CHARACTERS, Fact, Subject, SubjectAlias, SubjectChange
from memory.policy import MAX_FACTS_OF_SPLIT, MAX_REMARK_CHARACTERS
from memory.services.subjects.registry import alias_draft, aliases_of, quoted, subject_change_record, subjects_lock
from memory.subjects.spelling import key_of
from nousweb.lib.errors import Conflict, Invalid
from nousweb.lib.validation import text_check, visible_text_check


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
        named = _named(other, moved, name, details)
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


def _named(other: Subject, moved: list[SubjectAlias], name: str, details: dict[str, Any]) -> SubjectAlias:
    """The spelling `name` of the new subject: a moved spelling, or a new one."""
    key = key_of(name)
    for alias in moved:
        if alias.key == key:
            return alias
    taken = SubjectAlias.objects.filter(agent=other.agent_id, persona=other.persona, key=key).select_related("subject")
    if (known := taken.first()) is not None:
        raise Conflict(f"“{name}” is a spelling of “{known.subject.name}” already.", subject=str(known.subject_id))
    made = alias_draft(other, name, SubjectAlias.Origin.GIVEN)
    made.save(force_insert=True)
    details["made"] = str(made.pk)
    return made
