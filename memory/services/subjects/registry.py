"""Which thing a spelling means: looked up when facts are compared, and entered when one is stored.

Called under the learning lock of the memory, so no spelling is entered twice. What certainly means the same as a known
spelling joins it by itself; what may, becomes a question to people.
"""

from collections.abc import Iterable, Mapping

from identity.models import Agent
from identity.principal import Principal
from memory.models import Subject, SubjectAlias, SubjectChange
from memory.search.languages import dictionary_of
from memory.services.subjects.proposals import subject_questions_open
from memory.services.subjects.records import subject_change_record
from memory.subjects.likeness import blocks_offered
from memory.subjects.spelling import is_users, key_of, meaning_of
from nousweb.lib.prepared_statements import columns_of, instance_of, rows_prepared

Kind = Subject.Kind
Origin = SubjectAlias.Origin

KIND_OF_CATEGORY: Mapping[str, Subject.Kind] = {"person": Kind.PERSON, "project": Kind.PROJECT, "tool": Kind.SYSTEM}
"""What a thing is taken for at first, by the category of the fact that names it."""
MOST_ALIKE = 20


def alias_find(*, agent: Agent, persona: str, spelling: str) -> SubjectAlias | None:
    """The known spelling that `spelling` is or certainly means, with its subject; None when there is none, or several
    things that it may mean."""
    return KnownSpellings(agent=agent, persona=persona, spellings=[spelling]).find(spelling)


_KNOWN = f"""
SELECT {columns_of(SubjectAlias, "alias")}, {columns_of(Subject, "subject")}
FROM {SubjectAlias._meta.db_table} AS alias JOIN {Subject._meta.db_table} AS subject ON subject.id = alias.subject_id
WHERE alias.agent_id = %(agent)s AND alias.persona = %(persona)s
    AND (alias.key = ANY (%(keys)s::text[]) OR alias.meaning = ANY (%(meanings)s::text[]))
ORDER BY alias.created_at, alias.id LIMIT %(most)s::int
"""  # noqa: S608


def _known(agent: Agent, persona: str, keys: Mapping[str, str]) -> list[SubjectAlias]:
    """The entries of spellings of these keys and meanings, each with its subject. Learning a fact asks twice."""
    asked = {"agent": agent.pk, "persona": persona, "keys": [*keys], "meanings": [*set(keys.values())]}
    width = len(SubjectAlias._meta.concrete_fields)
    found = []
    for row in rows_prepared(_KNOWN, asked | {"most": MOST_ALIKE * len(keys)}):
        alias = instance_of(SubjectAlias, row[:width])
        alias.subject = instance_of(Subject, row[width:])
        found.append(alias)
    return found


class KnownSpellings:
    """What is known of some spellings of one memory, read at once; what is entered later is added."""

    def __init__(self, *, agent: Agent, persona: str, spellings: Iterable[str]) -> None:
        keys = {key: meaning_of(spelling) for spelling in spellings if (key := key_of(spelling))}
        self.rows = _known(agent, persona, keys) if keys else []

    def add(self, alias: SubjectAlias) -> None:
        if alias not in self.rows:
            self.rows.append(alias)

    def find(self, spelling: str) -> SubjectAlias | None:
        """As `alias_find`."""
        key, meaning = key_of(spelling), meaning_of(spelling)
        if not key:
            return None
        rows = [row for row in self.rows if key == row.key or meaning == row.meaning]
        exact = next((row for row in rows if row.key == key), None)
        if exact is not None:
            return exact
        return rows[0] if len({row.subject_id for row in rows}) == 1 else None


def alias_enter(*, agent: Agent, persona: str, spelling: str, by: Principal, category: str = "") -> SubjectAlias | None:
    """The entry of `spelling`, made if there is none: of the subject that it certainly means, else of a new one.

    None for a spelling of nothing. A new subject that may be a known one is a question to people.
    """
    key = key_of(spelling)
    if not key:
        return None
    known = alias_find(agent=agent, persona=persona, spelling=spelling)
    if known is not None and known.key == key:
        return known
    if known is not None:
        alias = _alias_make(known.subject, spelling, Origin.SEEN)
        summary = f"“{spelling}” joined “{known.subject.name}” by itself: it certainly means the same."
        subject_change_record(
            known.subject, SubjectChange.Action.ALIAS, by, summary=summary, details={"alias": str(alias.pk)}
        )
        return alias
    users = Subject.objects.filter(agent=agent, persona=persona, is_user=True).first() if is_users(spelling) else None
    if users is not None:
        return _alias_make(users, spelling, Origin.SEEN)
    user = is_users(spelling)
    subject = Subject.objects.create(
        agent=agent,
        persona=persona,
        name=spelling,
        kind=Kind.PERSON if user else KIND_OF_CATEGORY.get(category, Kind.OTHER),
        is_user=user,
    )
    alias = _alias_make(subject, spelling, Origin.SEEN)
    summary = f"“{spelling}” was named for the first time."
    subject_change_record(subject, SubjectChange.Action.CREATED, by, summary=summary)
    subject_questions_open(subject=subject, spelling=spelling)
    return alias


def _alias_make(subject: Subject, spelling: str, origin: SubjectAlias.Origin) -> SubjectAlias:
    alias = alias_draft(subject, spelling, origin)
    alias.save(force_insert=True)
    return alias


def alias_draft(subject: Subject, spelling: str, origin: SubjectAlias.Origin) -> SubjectAlias:
    """The entry of a spelling, not stored yet."""
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
