"""Memories as they were at a moment: today's rows, with every change since taken back as the records of it say.

Of facts their own history tells, of the others the audit trail. Only searches as of the past come here.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import BooleanField, CharField, Max, Model, Q, TextField

from identity.models import AuditEvent
from memory.models import Fact, FactChange, ItemType
from memory.persona import PersonaMemory
from memory.search.candidates import CandidateSet
from memory.search.index_tables import source_of
from memory.search.languages import terms_sql
from memory.search.lexeme_masks import Spellings, bits_read, lexeme_values, masks_of, spelled_of
from memory.search.request import SearchRequest
from memory.types import MEMORY_TYPES, IndexEntry, MemoryType, entry_of

Row = TypeVar("Row", bound=Model)
Key = tuple[str, str]

STORES = tuple(one for one in MEMORY_TYPES.values() if one.is_store)
_TYPE_OF_MODEL: Mapping[type, MemoryType] = {store.model: store for store in STORES}
"""How to take back what a trail tells of a row; censors, which are never searched, have nothing of their own."""

METADATA_FIELDS = ("category", "scope", "project", "task", "tags", "importance", "confidence", "endorsed")
"""What is taken back of a fact; what it says never changes, and its span is the one that is known today."""
SPAN_FIELDS = ("valid_from", "valid_until")
"""What is taken back beside that where the question is what stood against each other then."""
MOST_CHANGED = 300
"""Of each type so many of the latest changed memories are searched by what they said then."""


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """A memory at a moment: its words, metadata and row of the index. Events, which never change, have no entry."""

    content: str
    metadata: Mapping[str, Any]
    entry: IndexEntry | None


def memories_as_of(view: PersonaMemory, items: Iterable[Key], moment: datetime) -> dict[Key, MemorySnapshot]:
    """The memories (type, id) that `view` showed at `moment`; those that it did not show then are missing."""
    wanted: dict[str, list[str]] = {}
    for item_type, item_id in items:
        wanted.setdefault(item_type, []).append(item_id)
    found: dict[Key, MemorySnapshot] = {}
    if ids := wanted.get(ItemType.EVENT):
        events = view.events.filter(pk__in=[int(item) for item in ids]).values_list("pk", "content", "metadata")
        found |= {
            (ItemType.EVENT.value, str(pk)): MemorySnapshot(said, metadata, None) for pk, said, metadata in events
        }
    if ids := wanted.get(ItemType.FACT):
        facts = facts_as_of(view, list(view.facts.as_of(moment).filter(pk__in=ids)), moment)
        found |= {(ItemType.FACT.value, str(fact.pk)): _snapshot(MEMORY_TYPES[ItemType.FACT], fact) for fact in facts}
    kept: list[tuple[MemoryType, Any]] = []
    for store in STORES:
        if ids := wanted.get(store.key):
            kept += [(store, row) for row in view.rows(store.model).filter(pk__in=ids, created_at__lte=moment)]
    rows_as_of([row for _, row in kept], moment)
    return found | {(store.key.value, str(row.pk)): _snapshot(store, row) for store, row in kept if row.active}


def recorded(state: Any) -> Mapping[str, Any]:
    """What a record holds by name; nothing where it is empty, or of a form that no service writes."""
    return state if isinstance(state, dict) else {}


def rows_as_of(rows: Sequence[Row], moment: datetime) -> Sequence[Row]:
    """Rows of stores as they were at `moment`: their attributes are set, nothing is saved.

    Whether they were active then is for the caller to see. What the trail does not tell of, because a memory came
    without it or was erased from it, stays as it is today; but an end or a review that has a date never shows before.
    """
    by_key = {((row._meta.model_name or ""), str(row.pk)): row for row in rows}
    if not by_key:
        return rows
    which = Q()
    for name in {name for name, _ in by_key}:
        which |= Q(object_type=name, object_id__in=[key for kind, key in by_key if kind == name])
    trail = AuditEvent.objects.filter(which, at__gt=moment).order_by("-id")
    undone: dict[tuple[str, str], set[str]] = defaultdict(set)
    for object_type, object_id, action, before, after in trail.values_list(
        "object_type", "object_id", "action", "before", "after"
    ):
        row = by_key[object_type, object_id]
        _set(row, recorded(before))
        if memory_type := _TYPE_OF_MODEL.get(type(row)):
            _set(row, memory_type.take_back(row, action, recorded(after)))
        if before:
            undone[object_type, object_id].add(action)
    for key, row in by_key.items():
        if memory_type := _TYPE_OF_MODEL.get(type(row)):
            memory_type.settle(row, moment, undone[key])
    return rows


def facts_as_of(
    view: PersonaMemory, facts: Sequence[Fact], moment: datetime, fields: Collection[str] = METADATA_FIELDS
) -> Sequence[Fact]:
    """Facts with the metadata and confidence of `moment`, or other `fields`: attributes are set, nothing is saved."""
    by_key = {fact.pk: fact for fact in facts}
    changes = FactChange.objects.filter(fact__in=by_key, at__gt=moment).order_by("-at", "-id")
    for key, before in changes.values_list("fact_id", "before"):
        _set(by_key[key], {name: value for name, value in recorded(before).items() if name in fields})
    return facts


@dataclass(frozen=True, slots=True)
class Changed:
    """Memories that have changed since the moment of a request, by their ids in the index, as they were then.

    None stands for what was not shown then. `texts` are those by which the index finds them today.
    """

    agent_id: int
    request: SearchRequest
    then: Mapping[int, MemorySnapshot | None]
    texts: Mapping[int, str]

    @property
    def ids(self) -> list[int]:
        return list(self.then)

    def seen(self, given: CandidateSet, lexemes: Sequence[str], spellings: Spellings) -> CandidateSet:
        """The candidates with the changed memories as they were: their words, their metadata, or not there at all.

        A text of the past has no vector any more, so its words alone speak for it.
        """
        kept = np.array([self.then.get(key, True) is not None for key in given.ids], bool)
        rows = given.columns
        wanted, cosine, held, length = (
            given.wanted.copy(),
            rows.cosine.copy(),
            rows.held.copy(),
            rows.length.copy(),
        )
        passage, second, excerpts = rows.passage.copy(), rows.second.copy(), given.excerpts.copy()
        reworded: dict[int, str] = {}
        for place, key in enumerate(given.ids):
            then = self.then.get(key)
            if then is None or then.entry is None:
                continue
            wanted[place] = _passes(self.request, then.entry)
            if then.entry.text != self.texts[key]:
                reworded[place] = then.entry.text
                cosine[place] = passage[place] = second[place] = np.nan
                excerpts[place] = np.nan
        for place, mask, words in _read(self.agent_id, reworded, lexemes, spellings):
            held[place], length[place] = bits_read([mask], lexemes)[0], words
        changed = replace(
            rows,
            cosine=cosine[kept],
            held=held[kept],
            named=rows.named[kept],
            nameless=rows.nameless[kept],
            length=length[kept],
            loop=rows.loop[kept],
            position=rows.position[kept],
            hit=rows.hit[kept],
            says_time=rows.says_time[kept],
            passage=passage[kept],
            second=second[kept],
            speaker=rows.speaker[kept],
            standing=rows.standing[kept],
            asks=rows.asks[kept],
        )
        places = np.flatnonzero(kept).tolist()
        return CandidateSet(
            [given.ids[place] for place in places],
            [given.types[place] for place in places],
            wanted[kept],
            changed,
            excerpts[kept],
        )


def changed_since(view: PersonaMemory, request: SearchRequest, moment: datetime) -> Changed:
    """The memories that a search as of `moment` must not take as they are today."""
    keys: dict[Key, MemorySnapshot | None] = {}
    for store in STORES:
        if request.types and store.key not in request.types:
            continue
        recent = view.rows(store.model).filter(created_at__lte=moment, updated_at__gt=moment).order_by("-updated_at")
        held: Sequence[Any] = rows_as_of(list(recent[:MOST_CHANGED]), moment)
        keys |= {(store.key.value, str(row.pk)): _snapshot(store, row) if row.active else None for row in held}
    if not request.types or ItemType.FACT in request.types:
        recategorised = [(ItemType.FACT.value, str(key)) for key in _recategorised(view, request, moment)]
        then = memories_as_of(view, recategorised, moment)
        keys |= {key: then.get(key) for key in recategorised}
    rows = _index_rows(view, keys)
    return Changed(
        view.agent.pk,
        request,
        {row_id: keys[item_type, item_id] for row_id, item_type, item_id, _ in rows},
        {row_id: text for row_id, _, _, text in rows},
    )


def _recategorised(view: PersonaMemory, request: SearchRequest, moment: datetime) -> list[Any]:
    """Facts that a filter of the request would treat otherwise today than it did then."""
    names = [
        name
        for name, asked in (
            ("category", request.categories or request.exclude_categories),
            ("scope", request.scopes),
            ("project", not request.scope.all_projects),
            ("task", not request.scope.all_projects),
            ("tags", request.tags),
            ("importance", request.min_importance),
        )
        if asked
    ]
    if not names:
        return []
    touched = Q()
    for name in names:
        touched |= Q(before__has_key=name)
    changes = FactChange.objects.filter(
        touched, at__gt=moment, fact__agent=view.agent, fact__persona__in=view.personas, fact__recorded_at__lte=moment
    )
    latest = changes.order_by().values("fact_id").annotate(last=Max("id")).order_by("-last")[:MOST_CHANGED]
    return [row["fact_id"] for row in latest]


def _index_rows(view: PersonaMemory, keys: Iterable[Key]) -> list[tuple[int, str, str, str]]:
    keys = list(keys)
    if not keys:
        return []
    wanted = "(item_type, item_id) IN (SELECT * FROM unnest(%(types)s::text[], %(ids)s::text[]))"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT * FROM {source_of(view, 'id, item_type, item_id, text', wanted)} AS item",  # noqa: S608
            {"types": [key[0] for key in keys], "ids": [key[1] for key in keys]},
        )
        return list(cursor.fetchall())


def _read(
    agent_id: int, texts: Mapping[int, str], lexemes: Sequence[str], spellings: Spellings
) -> list[tuple[int, int, int]]:
    """Of each text its place, which of the lexemes it holds, as bits, and how many words it has."""
    if not texts:
        return []
    held, _ = masks_of(spelled_of(lexemes, spellings))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT place, {held}, nous_word_count(terms) FROM ("  # noqa: S608
            f"SELECT place, {terms_sql(agent_id, 'text')} AS terms"
            " FROM unnest(%(places)s::int[], %(texts)s::text[]) AS given (place, text)) AS reworded",
            {**lexeme_values(lexemes, spellings), "places": list(texts), "texts": list(texts.values())},
        )
        return list(cursor.fetchall())


def _passes(request: SearchRequest, entry: IndexEntry) -> bool:
    """The filters of a request, as `wanted_of` puts them to the index."""
    chosen = ((request.types, entry.item_type), (request.kinds, entry.kind), (request.categories, entry.category),
              (request.scopes, entry.scope))  # fmt: skip
    return (
        request.scope.shows(entry.project, entry.task)
        and all(not values or value in values for values, value in chosen)
        and entry.category not in request.exclude_categories
        and (not request.tags or bool(set(request.tags) & set(entry.tags)))
        and entry.importance >= request.min_importance
        and (not request.item_ids or entry.item_id in request.item_ids)
    )


def _snapshot(memory_type: MemoryType, memory: Any) -> MemorySnapshot:
    return MemorySnapshot(memory_type.text(memory), memory_type.metadata(memory), entry_of(memory))


def _set(row: Model, values: Mapping[str, Any]) -> None:
    """Set the columns among `values`; one that does not hold what its record says stays as it is."""
    for column in row._meta.concrete_fields:
        # Whose memory it is, and since when, no record changes.
        if column.name not in values or column.is_relation or not column.editable or column.name == "persona":
            continue
        try:
            setattr(row, column.name, _held(column, values[column.name]))
        except (ValidationError, TypeError, ValueError, OverflowError):
            continue


def _held(column: Any, value: Any) -> Any:
    """A value as the column holds it. Raises ValidationError: a trail that came from elsewhere may say anything."""
    texts = value if isinstance(column, ArrayField) and isinstance(value, list) else [value]
    if isinstance(column, ArrayField | CharField | TextField) and not all(isinstance(text, str) for text in texts):
        raise ValidationError("is text")
    if isinstance(value, bool) and not isinstance(column, BooleanField):
        raise ValidationError("is not true or false")
    held = column.clean(value, None)
    # No bound refuses what is not a number, and a moment without a zone is none.
    if held != held or (isinstance(held, datetime) and held.tzinfo is None):
        raise ValidationError("is no value")
    return held
