"""Import an agent from its export: completely, or not at all with the line of the error."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby, islice
from pathlib import Path
from typing import Any
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import DatabaseError, DataError, IntegrityError, models, transaction
from django.utils import timezone

from identity.models import Agent, AgentKind, ChangeProposal, IdentityVersion, Persona, validate_slug
from identity.principal import Principal
from identity.services.agents import identity_screen
from identity.services.audit import audit_record
from memory.models import (
    KEYS,
    Document,
    Event,
    Fact,
    FactChange,
    LoopSummary,
    ProjectKeyFields,
    SubjectAlias,
    WorkingMemory,
    document_address,
)
from memory.services.events import event_ids_reserve
from memory.services.memory_write import source_ref_check
from memory.services.quarantine.memories import quarantine_imported_row
from memory.services.quarantine.screening import imported_screen
from memory.services.search_index.reembedding import dictionary_of
from memory.services.search_index.writer import index_put
from memory.subjects.name_similarity import blocks_offered, key_of, meaning_of
from memory.subjects.registry_backfill import registry_fill
from memory.transfer.export_tables import (
    AGENT_FIELDS,
    AUDIT_TABLE,
    FORMAT,
    LATER,
    RENAMED,
    RENAMED_IN,
    TABLES,
    VERBATIM,
    VERSION,
    columns,
    table_name,
)
from memory.transfer.json_stream import BadJson, json_read
from memory.types import MEMORY_TYPES, MemoryType, entry_of
from memory.types.stores import document_text
from nousweb.lib import Conflict, Invalid, is_blank, unapprovable_reason
from nousweb.lib.bounds import EVERYBODY, key_text
from nousweb.lib.transactions import sql_row
from nousweb.lib.validation import visible_text

MAX_LEAD = timedelta(minutes=10)
"""How far the clock of the machine that wrote the file may be ahead of this one's."""

OF_THE_WORLD = frozenset({"valid_from", "valid_until", "expires_at", "ts", "started_at", "ended_at"})
"""Moments that may lie ahead, or are not of the machine that wrote them; all others tell what has happened."""

CONTENT = frozenset({"content", "description", "pattern", "name", "text"})
"""Columns that must not be empty; the others are names that the product itself gives."""

WORKING_TEXTS = {"items": ("id", "type", "text"), "open_threads": ("id", "text")}
"""What each entry of a working memory has as text, by column."""

CHANGED_MOMENTS = ("valid_from", "valid_until", "expires_at", "retired_at", "invalidated_at", "last_confirmed_at")
"""What a change of a fact keeps as moments: restoring the fact reads them again."""


class BadLine(Invalid):
    """A line of the file cannot be used."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"Line {number}: {why.rstrip('.')}.", field="file", line=number)


def column_value(number: int, column: Any, value: Any) -> Any:
    """`value`, of line `number`, as the column holds it. Raises BadLine that names the column."""
    try:
        if value is None:
            if not column.null:
                raise ValidationError("is missing")
            return None
        value = _typed(column, value)
        if column.choices and value not in (*dict(column.flatchoices), *([""] if column.blank else [])):
            raise ValidationError("is none of its choices")
        column.run_validators(value)
    except (ValidationError, ValueError, TypeError, OverflowError) as error:
        why = error.messages[0] if isinstance(error, ValidationError) else str(error)
        raise BadLine(number, f"{column.attname}: {why}"[:300]) from error
    return value


def is_uuid(text: str) -> bool:
    """Whether `text` is a UUID as an export writes it."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


TYPES: tuple[tuple[tuple[type[models.Field], ...], type | tuple[type, ...], str], ...] = (
    ((ArrayField,), list, "is a list"),
    ((models.CharField, models.TextField), str, "is text"),
    ((models.UUIDField,), str, "is a UUID, written in small letters with hyphens"),
    ((models.BooleanField,), bool, "is true or false"),
    ((models.FloatField,), (int, float), "is a number"),
    ((models.IntegerField,), int, "is a whole number"),
)
"""What a value of JSON is by its column, and the refusal of any other: nothing is read as a type that it resembles."""


def _typed(column: Any, value: Any) -> Any:
    """The value of the type that the column is of."""
    for columns_of_type, kinds, refusal in TYPES:
        if isinstance(column, columns_of_type):
            if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
                raise ValidationError(refusal)
            break
    match column:
        case ArrayField():
            for place, part in enumerate(value):
                if part is None:
                    raise ValidationError(f"entry {place + 1} is missing")
                _typed(column.base_field, part)
        case models.JSONField():
            _json_check(column, value)
        case models.CharField() | models.TextField():
            if not column.blank and is_blank(value) and column.name in CONTENT:
                raise ValidationError("must not be empty")
        case models.UUIDField():
            if not is_uuid(value):
                raise ValidationError("is a UUID, written in small letters with hyphens")
            return UUID(value)
        case models.FloatField():
            return float(value)
        case models.DateTimeField():
            return _moment(column, value)
    return value


def _moment(column: models.DateTimeField | None, value: Any) -> datetime:
    if not isinstance(value, str):
        raise ValidationError("is a moment as text, such as 2026-01-31T09:00:00+00:00")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise ValidationError("is a moment as text, such as 2026-01-31T09:00:00+00:00") from error
    if moment.tzinfo is None:
        raise ValidationError("lacks its time zone")
    try:
        moment = moment.astimezone(timezone.get_default_timezone())
    except OverflowError as error:
        raise ValidationError("lies outside the years 1 to 9999") from error
    if column is not None and column.name not in OF_THE_WORLD and moment > timezone.now() + MAX_LEAD:
        raise ValidationError("lies in the future")
    return moment


def _json_check(column: Any, value: Any) -> None:
    wanted = list if column.default is list else dict
    if not isinstance(value, wanted):
        raise ValidationError("is a list" if wanted is list else "is an object")
    if column.name == "source_ref" and isinstance(value, dict):
        try:
            source_ref_check(column.name, value)
        except Invalid as error:
            raise ValidationError(f"is no source: {error.detail}") from error
    if column.model is WorkingMemory:
        for place, entry in enumerate(value, 1):
            _entry_check(place, entry, WORKING_TEXTS[column.name])
    if column.model is FactChange and column.name == "before" and isinstance(value, dict):
        for name in CHANGED_MOMENTS:
            if value.get(name) is not None:
                _moment(None, value[name])


def _entry_check(place: int, entry: Any, texts: tuple[str, ...]) -> None:
    """One entry of a working memory is as its service writes it."""
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name), str) for name in texts):
        raise ValidationError(f"entry {place} is an object with {', '.join(texts)} as text")
    _moment(None, entry.get("added_at"))
    relevance = entry.get("relevance")
    if "type" not in texts:
        return
    if isinstance(relevance, bool) or not isinstance(relevance, int | float) or not 0 <= relevance <= 1:
        raise ValidationError(f"the relevance of entry {place} lies between 0 and 1")


BATCH = 500
MODELS: dict[str, type[models.Model]] = {table_name(model): model for model in (*TABLES, AUDIT_TABLE)}
WORDS = {table_name(model): names for model, names in RENAMED_IN.items()}
PLACES = {name: place for place, name in enumerate(MODELS)}


def agent_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of the file with their numbers. Raises BadLine for one that is no object of JSON."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = json_read(raw)
            except BadJson as error:
                raise BadLine(number, error.why) from error
            if not isinstance(line, dict):
                raise BadLine(number, "this is not an object.")
            if isinstance(row := line.get("row"), dict):
                ours = WORDS.get(str(line.get("table")), ())
                line["row"] = {
                    RENAMED.get(name, name): _renamed(value) if name in ours else value for name, value in row.items()
                }
            yield number, line


def _renamed(value: Any) -> Any:
    """The value of a column of our own words, with their present names."""
    if isinstance(value, dict):
        return {RENAMED.get(key, key): inner for key, inner in value.items()}
    return RENAMED.get(value, value) if isinstance(value, str) else value


def agent_survey(path: Path) -> tuple[dict[str, Any], dict[str, int], dict[str, set[str]]]:
    """The header, the rows by table, and the UUIDs by table, of a file that is whole."""
    lines = agent_lines(path)
    number, first = next(lines, (1, {}))
    header = first.get("agent")
    if first.get("format") != FORMAT or not isinstance(header, dict) or set(header) != set(AGENT_FIELDS):
        raise BadLine(number, "this is not the beginning of an exported agent.")
    if first.get("version") != VERSION:
        raise BadLine(number, f"version {first.get('version')!r} of the format is not known; this reads {VERSION}.")
    counts: dict[str, int] = {}
    ids: dict[str, set[str]] = {}
    place, end = 0, None
    for number, line in lines:
        if end is not None:
            raise BadLine(number, "there is more after the end.")
        if set(line) == {"end"}:
            end = line["end"]
            continue
        name, row = line.get("table"), line.get("row")
        if not isinstance(name, str) or name not in MODELS or not isinstance(row, dict) or len(line) != 2:
            raise BadLine(number, f"this is no row of a known table: {str(name)[:60]!r}.")
        if PLACES[name] < place:
            raise BadLine(number, f"rows of {name} come too late.")
        place = PLACES[name]
        wanted = {column.attname for column in columns(MODELS[name])}
        row = {**{column: held for (model, column), held in LATER.items() if model is MODELS[name]}, **row}
        if set(row) != wanted:
            differing = sorted(set(row) ^ wanted)
            raise BadLine(number, f"a row of {name} lacks or adds {', '.join(differing)[:200]}.")
        counts[name] = counts.get(name, 0) + 1
        if isinstance(row.get("id"), str) and MODELS[name] is not Event:
            if not is_uuid(row["id"]):
                raise BadLine(number, "id: is a UUID, written in small letters with hyphens")
            if row["id"] in ids.setdefault(name, set()):
                raise BadLine(number, f"{name} {row['id'][:60]} is there twice.")
            ids[name].add(row["id"])
    if not isinstance(end, dict):
        raise BadLine(number, "the file ends too early; its last line counts the rows.")
    if {name: count for name, count in end.items() if count} != counts:
        raise BadLine(number, "the rows are not as many as the last line says.")
    return header, counts, ids


def row_batches(path: Path) -> Iterator[tuple[type[models.Model], list[tuple[int, dict[str, Any]]]]]:
    """The rows of the file with their line numbers, of one table at a time."""
    lines = ((number, line) for number, line in agent_lines(path) if "table" in line)
    for name, of_table in groupby(lines, key=lambda numbered: numbered[1]["table"]):
        while batch := [(number, line["row"]) for number, line in islice(of_table, BATCH)]:
            yield MODELS[name], batch


MAX_ID_DIGITS = 19
WITH_PROJECT_KEYS = tuple(model for model in TABLES if issubclass(model, ProjectKeyFields))

Progress = Callable[[int, int], None]
"""Called with the rows stored and the rows there are."""


def agent_import(
    *, path: Path, by: Principal, slug: str = "", progress: Progress = lambda done, total: None
) -> tuple[Agent, dict[str, int]]:
    """Make an agent of the export in `path`, called `slug` or as it was; returns it with its rows by table.

    1. The file is read through first: every line must be JSON of a known table, and the last one must agree with
       what came before, or nothing is stored.
    2. Rows are stored as they were, with their moments. UUIDs stay where they are free in this database, and are
       replaced where not; events get new ids; whatever refers to either follows.
    3. Rows of the search index are rebuilt and wait for their vectors.

    One transaction. Raises BadLine, Invalid, Conflict when there is an agent of this slug, or NotAllowed.
    """
    by.require("identity.add_agent")
    header, counts, ids = agent_survey(path)
    if not isinstance(header["slug"], str):
        raise BadLine(1, "slug: is text")
    slug = slug or header["slug"]
    try:
        with transaction.atomic():
            agent = _agent(header, slug)
            storing = _Storing(agent, ids)
            total = sum(counts.values())
            stored = 0
            for model, numbered in row_batches(path):
                storing.store(model, numbered)
                stored += len(numbered)
                progress(stored, total)
            registry_fill(agent.pk)
            _agreement_check(agent)
            for memory_type in MEMORY_TYPES.values():
                _index(memory_type, agent)
            imported_screen(agent)
            identity_screen(agent=agent, by=by)
            audit_record(by=by, action="agent.import", target=agent, agent=agent, after={"slug": slug, "rows": counts})
    except (IntegrityError, DataError) as error:
        raise Invalid(
            f"The database refuses what is in it: {str(error).splitlines()[0][:300]}.", field="file"
        ) from error
    return agent, counts


def _agent(header: dict[str, Any], slug: str) -> Agent:
    try:
        validate_slug(slug)
    except ValidationError as error:
        raise Invalid(error.messages[0], field="slug") from error
    if Agent.objects.filter(slug=slug).exists():
        raise Conflict(f"There is already an agent {slug!r}.", field="slug")
    if header["kind"] not in AgentKind.values:
        raise BadLine(1, f"kind: is one of {', '.join(AgentKind.values)}")
    agent = Agent(slug=slug)
    for column in Agent._meta.concrete_fields:
        if column.name in AGENT_FIELDS and column.name != "slug":
            setattr(agent, column.name, column_value(1, column, header[column.name]))
    agent.save(force_insert=True)
    return agent


class _Storing:
    """Stores rows, and keeps which id of the file became which of the database."""

    def __init__(self, agent: Agent, ids: dict[str, set[str]]) -> None:
        self.agent = agent
        self.known = ids
        self.events: dict[int, int] = {}
        self.renamed = {
            old: str(uuid.uuid4()) for name, held in ids.items() for old in _taken(MODELS[name], sorted(held))
        }

    def store(self, model: type[models.Model], numbered: list[tuple[int, dict[str, Any]]]) -> None:
        objects = [self._object(model, number, row) for number, row in numbered]
        if model is Event:
            self._number(objects)
        try:
            with transaction.atomic():
                model._default_manager.bulk_create(objects)
        except (DatabaseError, ValueError):
            # One by one, to say which: the whole is undone anyway.
            for (number, _), refused in zip(numbered, objects, strict=True):
                self._store_one(model, number, refused)
            raise
        if model is Event:
            for (_, row), event in zip(numbered, objects, strict=True):
                self.events[row["id"]] = event.pk

    def _number(self, events: Sequence[Any]) -> None:
        """Give events the next ids of their persona, in the order of the file."""
        for persona in Persona.values:
            own = [event for event in events if event.persona == persona]
            ids = event_ids_reserve(agent_id=self.agent.pk, persona=persona, count=len(own)) if own else []
            for event, key in zip(own, ids, strict=True):
                event.pk = key

    @staticmethod
    def _store_one(model: type[models.Model], number: int, row: models.Model) -> None:
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except (DatabaseError, ValueError) as error:
            why = str(error).splitlines()[0][:300]
            raise BadLine(number, f"the database refuses this row of {table_name(model)}: {why}") from error

    def _object(self, model: type[models.Model], number: int, row: dict[str, Any]) -> models.Model:
        values: dict[str, Any] = {}
        for column in columns(model):
            # Every row has every column, but for those in LATER.
            value: Any = row.get(str(column.attname), LATER.get((model, column.name)))
            if isinstance(column, models.ForeignKey):
                values[column.attname] = self._reference(number, column, value)
            elif column.primary_key:
                if model is not Event:
                    known = self.renamed.get(value, value) if isinstance(value, str) else value
                    values[column.attname] = column_value(number, column, known)
                elif not isinstance(value, int) or isinstance(value, bool) or value in self.events:
                    raise BadLine(number, "id: an event has a whole number of its own")
            else:
                if column.name in ("project", "task_key", "user") or (
                    column.name == "task" and model in WITH_PROJECT_KEYS
                ):
                    value = _key(number, column.name, value)
                if isinstance(column, models.JSONField) and (model, column.name) not in VERBATIM:
                    value = self._renamed_inside(value)
                values[column.attname] = column_value(number, column, value)
        if model is LoopSummary:
            held = values["long_term_ids"]
            values["long_term_ids"] = [self._event(number, "long_term_ids", old) for old in held]
        if model is AUDIT_TABLE:
            values["object_id"] = self._object_id(values["object_type"], values["object_id"])
        if {"item_type", "item_id"} <= values.keys():
            values["item_id"] = self._object_id(values["item_type"], values["item_id"])
        if "earlier_item_ids" in values:
            values["earlier_item_ids"] = [self.renamed.get(old, old) for old in values["earlier_item_ids"]]
        if any(column.name == "agent" for column in model._meta.concrete_fields):
            values["agent_id"] = self.agent.pk
        if model is Fact:
            # A text of which nothing is seen stays: no fact is empty.
            for name in ("content", "subject", "attribute", "value"):
                values[name] = visible_text(values[name]) or values[name]
            values["tags"] = list(dict.fromkeys(visible_text(tag) or tag for tag in values["tags"]))
        if model is SubjectAlias:
            spelling = values["spelling"]
            values |= {"key": key_of(spelling), "meaning": meaning_of(spelling)}
            values["dictionary"] = dictionary_of(self.agent.pk)
            values["blocks"] = blocks_offered(self.agent.pk, values["persona"], spelling)
        if model is Document:
            values["address"] = document_address(*(values[name] for name in ("namespace", "key", *KEYS)))
            values["text"] = document_text(values["value"], values["index_fields"])
        _approvable_check(number, model, values)
        return model(**values)

    def _reference(self, number: int, column: models.ForeignKey, value: Any) -> Any:
        if value is None:
            if not column.null:
                raise BadLine(number, f"{column.attname}: is missing")
            return None
        target: Any = column.related_model
        if target is Event:
            return self._event(number, column.attname, value)
        if not isinstance(value, str) or value not in self.known.get(table_name(target), ()):
            raise BadLine(number, f"{column.attname}: refers to nothing in this file")
        return self.renamed.get(value, value)

    def _event(self, number: int, name: str, old: Any) -> int:
        if not isinstance(old, int) or isinstance(old, bool) or old not in self.events:
            raise BadLine(number, f"{name}: event {str(old)[:40]} is not in this file")
        return self.events[old]

    def _object_id(self, kind: str, old: str) -> str:
        if kind == "agent":
            return str(self.agent.pk)
        if kind == "event" and old.isdecimal() and len(old) < MAX_ID_DIGITS:
            return str(self.events.get(int(old), old))
        return self.renamed.get(old, old)

    def _renamed_inside(self, value: Any) -> Any:
        """A JSON value in which ids of memories are the new ones."""
        if isinstance(value, str):
            return self.renamed.get(value, value)
        if isinstance(value, list):
            return [self._renamed_inside(inner) for inner in value]
        if isinstance(value, dict):
            inner = {name: self._renamed_inside(held) for name, held in value.items()}
            old = inner.get("id")
            if inner.get("type") == "event" and isinstance(old, str) and old.isdecimal() and len(old) < MAX_ID_DIGITS:
                known = self.events.get(int(old))
                if known is not None:
                    inner["id"] = str(known)
            return inner
        return value


def _key(number: int, name: str, value: Any) -> Any:
    """The key of a project, a task or a user as services store it."""
    try:
        if name == "user" and value == EVERYBODY:
            raise ValueError("everybody's memory has none.")
        return key_text(value) if isinstance(value, str) else value
    except ValueError as error:
        raise BadLine(number, f"{name}: {error}") from error


def _approvable_check(number: int, model: type[models.Model], values: dict[str, Any]) -> None:
    """Check that current versions and pending proposals have only visible characters. Past versions stay unchanged."""
    current = model is IdentityVersion and values["is_current"]
    waiting = model is ChangeProposal and values["status"] in ChangeProposal.WAITING
    if (current or waiting) and (why := unapprovable_reason(values["content"])):
        raise BadLine(number, f"content: {why}")


def _taken(model: type[models.Model], ids: list[str]) -> Iterator[str]:
    for start in range(0, len(ids), BATCH):
        found = model._default_manager.filter(pk__in=ids[start : start + BATCH]).values_list("pk", flat=True)
        yield from map(str, found)


_AGREEMENTS = {
    "A long-term entry is not of the persona and loop of its event.": """
SELECT EXISTS (
    SELECT 1 FROM memory_longtermentry entry
    JOIN memory_event event ON event.id = entry.event_id AND event.agent_id = entry.agent_id
    WHERE entry.agent_id = %(agent)s AND (entry.persona, entry.loop_id) <> (event.persona, event.loop_id))""",
    "A loop or an episode holds events of another persona.": """
SELECT EXISTS (
    SELECT 1 FROM memory_loopsummary loop, unnest(loop.long_term_ids) entry_id
    JOIN memory_longtermentry entry ON entry.event_id = entry_id
    WHERE loop.agent_id = %(agent)s AND entry.agent_id = loop.agent_id
    AND (entry.persona, entry.loop_id) <> (loop.persona, loop.loop_id))
OR EXISTS (
    SELECT 1 FROM memory_episodeevent link
    JOIN memory_episode episode ON episode.id = link.episode_id AND episode.agent_id = link.agent_id
    JOIN memory_event event ON event.id = link.event_id AND event.agent_id = link.agent_id
    WHERE episode.agent_id = %(agent)s AND episode.persona = 'actor' AND event.persona <> 'actor')""",
    "A fact or a spelling is of a subject of another persona.": """
SELECT EXISTS (
    SELECT 1 FROM memory_fact fact JOIN memory_subjectalias alias
    ON alias.id = fact.subject_alias_id AND alias.agent_id = fact.agent_id
    WHERE fact.agent_id = %(agent)s AND alias.persona <> fact.persona)
OR EXISTS (
    SELECT 1 FROM memory_subjectalias alias JOIN memory_subject subject
    ON subject.id = alias.subject_id AND subject.agent_id = alias.agent_id
    WHERE alias.agent_id = %(agent)s AND alias.persona <> subject.persona)
OR EXISTS (
    SELECT 1 FROM memory_subject one JOIN memory_subject other
    ON other.id = one.merged_into_id AND other.agent_id = one.agent_id
    WHERE one.agent_id = %(agent)s AND one.persona <> other.persona)""",
    "A loop or an episode holds events of another project, task or user.": """
SELECT EXISTS (
    SELECT 1 FROM memory_loopsummary loop JOIN memory_event event
    ON (event.agent_id, event.persona, event.loop_id) = (loop.agent_id, loop.persona, loop.loop_id)
    WHERE loop.agent_id = %(agent)s AND (event.project NOT IN ('', loop.project) OR event.task NOT IN ('', loop.task)
        OR event.user_key NOT IN ('', loop.user_key)))
OR EXISTS (
    SELECT 1 FROM memory_episodeevent link
    JOIN memory_episode episode ON episode.id = link.episode_id AND episode.agent_id = link.agent_id
    JOIN memory_event event ON event.id = link.event_id AND event.agent_id = link.agent_id
    WHERE episode.agent_id = %(agent)s AND (event.project NOT IN ('', episode.project)
        OR event.task NOT IN ('', episode.task) OR event.user_key NOT IN ('', episode.user_key)))""",
}
"""What is refused, by how it is found: no file carries words into another persona, loop, project, task or user."""


def _agreement_check(agent: Agent) -> None:
    for refusal, statement in _AGREEMENTS.items():
        if sql_row(statement, {"agent": agent.pk})[0]:
            raise Invalid(refusal, field="file")


def _index(memory_type: MemoryType, agent: Agent) -> None:
    """Index what came, but for what reads like an instruction to the agent, which waits for people here too."""
    rows = memory_type.indexed_rows().filter(agent=agent).select_related("agent").order_by("pk").iterator(BATCH)
    while batch := list(islice(rows, BATCH)):
        for row in batch:
            quarantine_imported_row(row)
        index_put(map(entry_of, batch))
