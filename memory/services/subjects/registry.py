"""Which thing a spelling means: looked up when facts are compared, and entered when one is stored.

Called under the learning lock of the memory, so no spelling is entered twice. What certainly means the same as a known
spelling joins it by itself; what may, becomes a question to people.
"""

from collections.abc import Iterable, Mapping

from identity.models import Agent
from identity.principal import Principal
from memory.models import Subject, SubjectAlias, SubjectChange
from memory.services.languages import dictionary_of
from memory.services.subjects.proposals import subject_questions, subject_questions_open
from memory.services.subjects.records import SubjectEvent, subject_changes_record
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
FROM {SubjectAlias._meta.db_table} AS alias JOIN {Subject._meta.db_table} AS subject
    ON subject.id = alias.subject_id AND subject.agent_id = alias.agent_id
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
        self._by_key: dict[str, SubjectAlias] = {}
        self._by_meaning: dict[str, list[SubjectAlias]] = {}
        for row in _known(agent, persona, keys) if keys else []:
            self.add(row)

    def add(self, alias: SubjectAlias) -> None:
        if self._by_key.setdefault(alias.key, alias) is alias:
            self._by_meaning.setdefault(alias.meaning, []).append(alias)

    def find(self, spelling: str) -> SubjectAlias | None:
        """As `alias_find`."""
        key = key_of(spelling)
        if not key:
            return None
        exact = self._by_key.get(key)
        if exact is not None:
            return exact
        rows = self._by_meaning.get(meaning_of(spelling), [])
        return rows[0] if len({row.subject_id for row in rows}) == 1 else None


class SpellingEntries:
    """Entering spellings of one memory in their order, and storing what they come to together."""

    def __init__(self, *, agent: Agent, persona: str, known: KnownSpellings, by: Principal) -> None:
        self.agent, self.persona, self.known, self.by = agent, persona, known, by
        self._subjects: list[Subject] = []
        self._aliases: list[SubjectAlias] = []
        self._changes: list[SubjectEvent] = []
        self._dictionary = ""
        self._user: Subject | None = None

    def enter(self, spelling: str, category: str = "") -> SubjectAlias | None:
        """The entry of `spelling`, made if there is none: of the subject that it certainly means, else of a new one.

        None for a spelling of nothing. What is made is stored by `store`.
        """
        key = key_of(spelling)
        if not key:
            return None
        known = self.known.find(spelling)
        if known is not None and known.key == key:
            return known
        if known is not None:
            alias = self._make(known.subject, spelling)
            summary = f"“{spelling}” was added to “{known.subject.name}” automatically: it certainly means the same."
            self._changes.append(
                SubjectEvent(known.subject, SubjectChange.Action.ALIAS, summary, details={"alias": str(alias.pk)})
            )
            return alias
        user = is_users(spelling)
        if user and (users := self._user_find()) is not None:
            return self._make(users, spelling)
        subject = Subject(
            agent=self.agent,
            persona=self.persona,
            name=spelling,
            kind=Kind.PERSON if user else KIND_OF_CATEGORY.get(category, Kind.OTHER),
            is_user=user,
        )
        if user:
            self._user = subject
        self._subjects.append(subject)
        summary = f"“{spelling}” was named for the first time."
        self._changes.append(SubjectEvent(subject, SubjectChange.Action.CREATED, summary))
        return self._make(subject, spelling)

    def store(self) -> None:
        """Store what was entered since the last time. A new subject that may be a known one is a question to people."""
        subjects, self._subjects = self._subjects, []
        aliases, self._aliases = self._aliases, []
        changes, self._changes = self._changes, []
        if not aliases:
            return
        asked = subject_questions(subjects, aliases)
        Subject.objects.bulk_create(subjects)
        SubjectAlias.objects.bulk_create(aliases)
        subject_changes_record(changes, self.by)
        subject_questions_open(asked)

    def _make(self, subject: Subject, spelling: str) -> SubjectAlias:
        self._dictionary = self._dictionary or dictionary_of(self.agent.pk)
        alias = alias_draft(subject, spelling, Origin.SEEN, self._dictionary)
        self._aliases.append(alias)
        self.known.add(alias)
        return alias

    def _user_find(self) -> Subject | None:
        if self._user is None:
            self._user = Subject.objects.filter(agent=self.agent, persona=self.persona, is_user=True).first()
        return self._user


def alias_enter(*, agent: Agent, persona: str, spelling: str, by: Principal, category: str = "") -> SubjectAlias | None:
    """Enter one spelling, as `SpellingEntries` does, and store it."""
    if not key_of(spelling):
        return None
    known = KnownSpellings(agent=agent, persona=persona, spellings=[spelling])
    entries = SpellingEntries(agent=agent, persona=persona, known=known, by=by)
    alias = entries.enter(spelling, category)
    entries.store()
    return alias


def alias_draft(subject: Subject, spelling: str, origin: SubjectAlias.Origin, dictionary: str = "") -> SubjectAlias:
    """The entry of a spelling, not stored yet; `dictionary` is the one of the agent, where it has been read."""
    return SubjectAlias(
        agent=subject.agent,
        persona=subject.persona,
        subject=subject,
        spelling=spelling,
        key=key_of(spelling),
        meaning=meaning_of(spelling),
        origin=origin,
        dictionary=dictionary or dictionary_of(subject.agent_id),
        blocks=blocks_offered(subject.agent_id, subject.persona, spelling),
    )
