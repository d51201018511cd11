"""Create a subject before any fact names it."""

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.models import Subject, SubjectAlias, SubjectChange
from memory.models.subjects import MAX_SPELLING_CHARACTERS
from memory.services.facts.locks import learning_lock
from memory.services.subjects.edit import user_take
from memory.services.subjects.locks import CHANGE
from memory.services.subjects.proposals import subject_reviews_open
from memory.services.subjects.records import subject_change_record
from memory.services.subjects.registry import alias_draft, alias_find
from memory.subjects.spelling import is_users, key_of
from nousweb.lib.errors import Conflict, Invalid
from nousweb.lib.validation import choice_check, visible_text_check


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
        user_take(subject)
    subject_reviews_open(subject, name)
    return subject
