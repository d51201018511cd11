"""The registry of subjects: look up aliases when facts are compared, and enter them when a fact is stored.

It is used under the learning lock of the memory, so no spelling is entered twice. A spelling that certainly means the
same as a registered one becomes an alias of that subject; one that may mean the same opens a review.
"""

from collections.abc import Iterable, Mapping

from identity.models import Agent
from identity.principal import Principal
from memory.models import Subject, SubjectAlias, SubjectChange
from memory.policy.categories import SUBJECT_KIND_OF_CATEGORY
from memory.services.search_index.agent_languages import dictionary_of
from memory.services.subjects.proposals import draft_subject_reviews, open_subject_reviews
from memory.services.subjects.records import SubjectEvent, subject_changes_record
from memory.subjects.name_similarity import blocks_offered
from memory.subjects.spelling import is_users, key_of, meaning_of
from nousweb.lib.prepared_statements import columns_of, instance_of, rows_prepared

Kind = Subject.Kind
Origin = SubjectAlias.Origin

MAX_ALIASES_PER_SPELLING = 20


def alias_find(*, agent: Agent, persona: str, spelling: str) -> SubjectAlias | None:
    """The alias, with its subject, that equals `spelling` or certainly means the same; None if there is none, or if
    several subjects are possible."""
    return AliasLookup(agent=agent, persona=persona, spellings=[spelling]).find(spelling)


_ALIASES = f"""
SELECT {columns_of(SubjectAlias, "alias")}, {columns_of(Subject, "subject")}
FROM {SubjectAlias._meta.db_table} AS alias JOIN {Subject._meta.db_table} AS subject
    ON subject.id = alias.subject_id AND subject.agent_id = alias.agent_id
WHERE alias.agent_id = %(agent)s AND alias.persona = %(persona)s
    AND (alias.key = ANY (%(keys)s::text[]) OR alias.meaning = ANY (%(meanings)s::text[]))
ORDER BY alias.created_at, alias.id LIMIT %(limit)s::int
"""  # noqa: S608


def _aliases_of(agent: Agent, persona: str, keys: Mapping[str, str]) -> list[SubjectAlias]:
    """The aliases with these keys or meanings, each with its subject."""
    asked = {"agent": agent.pk, "persona": persona, "keys": [*keys], "meanings": [*set(keys.values())]}
    width = len(SubjectAlias._meta.concrete_fields)
    found = []
    for row in rows_prepared(_ALIASES, asked | {"limit": MAX_ALIASES_PER_SPELLING * len(keys)}):
        alias = instance_of(SubjectAlias, row[:width])
        alias.subject = instance_of(Subject, row[width:])
        found.append(alias)
    return found


class AliasLookup:
    """The aliases for some spellings of one memory, read by one statement. Aliases that are entered later are added."""

    def __init__(self, *, agent: Agent, persona: str, spellings: Iterable[str]) -> None:
        keys = {key: meaning_of(spelling) for spelling in spellings if (key := key_of(spelling))}
        self._by_key: dict[str, SubjectAlias] = {}
        self._by_meaning: dict[str, list[SubjectAlias]] = {}
        for row in _aliases_of(agent, persona, keys) if keys else []:
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


class AliasWriter:
    """Enter spellings of one memory in order, and store the new aliases and subjects together."""

    def __init__(self, *, agent: Agent, persona: str, lookup: AliasLookup, by: Principal) -> None:
        self.agent, self.persona, self.lookup, self.by = agent, persona, lookup, by
        self._subjects: list[Subject] = []
        self._aliases: list[SubjectAlias] = []
        self._changes: list[SubjectEvent] = []
        self._dictionary = ""
        self._user: Subject | None = None

    def enter(self, spelling: str, category: str = "") -> SubjectAlias | None:
        """The alias of `spelling`; if there is none, a new one of the subject that it certainly means, or of a new one.

        None if the spelling is empty. `store` stores new aliases and subjects.
        """
        key = key_of(spelling)
        if not key:
            return None
        known = self.lookup.find(spelling)
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
            kind=Kind.PERSON if user else SUBJECT_KIND_OF_CATEGORY.get(category, Kind.OTHER),
            is_user=user,
        )
        if user:
            self._user = subject
        self._subjects.append(subject)
        summary = f"“{spelling}” was named for the first time."
        self._changes.append(SubjectEvent(subject, SubjectChange.Action.CREATED, summary))
        return self._make(subject, spelling)

    def store(self) -> None:
        """Store the new aliases and subjects since the last call. A new subject like another one opens a review."""
        subjects, self._subjects = self._subjects, []
        aliases, self._aliases = self._aliases, []
        changes, self._changes = self._changes, []
        if not aliases:
            return
        drafts = draft_subject_reviews(subjects, aliases)
        Subject.objects.bulk_create(subjects)
        SubjectAlias.objects.bulk_create(aliases)
        subject_changes_record(changes, self.by)
        open_subject_reviews(drafts)

    def _make(self, subject: Subject, spelling: str) -> SubjectAlias:
        self._dictionary = self._dictionary or dictionary_of(self.agent.pk)
        alias = alias_draft(subject, spelling, Origin.SEEN, self._dictionary)
        self._aliases.append(alias)
        self.lookup.add(alias)
        return alias

    def _user_find(self) -> Subject | None:
        if self._user is None:
            self._user = Subject.objects.filter(agent=self.agent, persona=self.persona, is_user=True).first()
        return self._user


def alias_enter(*, agent: Agent, persona: str, spelling: str, by: Principal, category: str = "") -> SubjectAlias | None:
    """Enter one spelling by an `AliasWriter`, and store it."""
    if not key_of(spelling):
        return None
    lookup = AliasLookup(agent=agent, persona=persona, spellings=[spelling])
    writer = AliasWriter(agent=agent, persona=persona, lookup=lookup, by=by)
    alias = writer.enter(spelling, category)
    writer.store()
    return alias


def alias_draft(subject: Subject, spelling: str, origin: SubjectAlias.Origin, dictionary: str = "") -> SubjectAlias:
    """Build an unsaved alias; `dictionary` is that of the agent, if it is known already."""
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
