"""Memories as they were at a moment: the current rows with all later changes undone.

The changes of facts are in their history, those of other types in the audit trail. Only searches as of a moment use
this.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db.models import BooleanField, CharField, Max, Model, Q, TextField

from identity.models import AuditEvent
from memory.models import Fact, FactChange, ItemType, Trust, ends_at
from memory.persona import PersonaMemory
from memory.search.index_tables import source_of
from memory.search.languages import terms_sql
from memory.search.query_word_counts import Spellings, bits_read, has_spellings, lexeme_values, masks_of
from memory.search.request import SearchRequest
from memory.search.row_retrieval import CandidateSet
from memory.types import MEMORY_TYPES, IndexEntry, MemoryType, entry_of
from nousweb.lib.transactions import sql_rows

Row = TypeVar("Row", bound=Model)
Key = tuple[str, str]

STORES = tuple(memory_type for memory_type in MEMORY_TYPES.values() if memory_type.is_store)
_TYPE_OF_MODEL: Mapping[type, MemoryType] = {store.model: store for store in STORES}
"""How to undo an audited change of a row. Censors are never searched and are not among them."""

METADATA_FIELDS = ("category", "scope", "project", "task", "user", "tags", "importance", "confidence", "endorsed")
"""Fields of a fact that are restored. Its content never changes, and its valid time is the one recorded today."""
SPAN_FIELDS = ("valid_from", "valid_until")
"""Fields that are restored too to find the facts that contradicted each other at the moment."""
MAX_CHANGED = 300
"""Maximum number of changed memories, per type, of which historical versions are built, the latest changes first."""


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """A memory at a moment: its text, metadata, trust class and index row. Events never change and have no `entry`."""

    content: str
    metadata: Mapping[str, Any]
    trust: str
    entry: IndexEntry | None = None


def memories_as_of(view: PersonaMemory, items: Iterable[Key], moment: datetime) -> dict[Key, MemorySnapshot]:
    """The memories, by type and id, as `view` showed them at `moment`; those that it did not show then are left out."""
    wanted: dict[str, list[str]] = {}
    for item_type, item_id in items:
        wanted.setdefault(item_type, []).append(item_id)
    found: dict[Key, MemorySnapshot] = {}
    if ids := wanted.get(ItemType.EVENT):
        events = view.events.filter(pk__in=[int(item) for item in ids])
        found |= {
            (ItemType.EVENT.value, str(pk)): MemorySnapshot(content, metadata, trust or Trust.AGENT.value)
            for pk, content, metadata, trust in events.values_list("pk", "content", "metadata", "long_term__origin")
        }
    if ids := wanted.get(ItemType.FACT):
        facts = facts_as_of(view, list(view.facts.as_of(moment).filter(pk__in=ids)), moment)
        found |= {(ItemType.FACT.value, str(fact.pk)): _snapshot(MEMORY_TYPES[ItemType.FACT], fact) for fact in facts}
    rows: list[tuple[MemoryType, Any]] = []
    for store in STORES:
        if ids := wanted.get(store.key):
            rows += [(store, row) for row in view.rows(store.model).filter(pk__in=ids, created_at__lte=moment)]
    rows_as_of([row for _, row in rows], moment)
    return found | {
        (store.key.value, str(row.pk)): _snapshot(store, row) for store, row in rows if _is_shown(row, moment)
    }


def recorded_fields(state: Any) -> Mapping[str, Any]:
    """`state` of a change record if it is a dict of field values, else {}."""
    return state if isinstance(state, dict) else {}


def rows_as_of(rows: Sequence[Row], moment: datetime) -> Sequence[Row]:
    """Set the attributes of `rows` to their values at `moment`, and return the rows. Nothing is saved.

    The caller checks whether a row was active then. Changes without an audit record (the memory was imported, or the
    record was erased) are not undone, except that an end or a review with a later date is removed.
    """
    by_key = {((row._meta.model_name or ""), str(row.pk)): row for row in rows}
    if not by_key:
        return rows
    condition = Q()
    for name in {name for name, _ in by_key}:
        condition |= Q(object_type=name, object_id__in=[key for kind, key in by_key if kind == name])
    trail = AuditEvent.objects.filter(condition, at__gt=moment).order_by("-id")
    undone: dict[tuple[str, str], set[str]] = defaultdict(set)
    for object_type, object_id, action, before, after in trail.values_list(
        "object_type", "object_id", "action", "before", "after"
    ):
        row = by_key[object_type, object_id]
        _set(row, recorded_fields(before))
        if memory_type := _TYPE_OF_MODEL.get(type(row)):
            _set(row, memory_type.undo_change(row, action, recorded_fields(after)))
        if before:
            undone[object_type, object_id].add(action)
    for key, row in by_key.items():
        if memory_type := _TYPE_OF_MODEL.get(type(row)):
            memory_type.restore_as_of(row, moment, undone[key])
    return rows


def facts_as_of(
    view: PersonaMemory, facts: Sequence[Fact], moment: datetime, fields: Collection[str] = METADATA_FIELDS
) -> Sequence[Fact]:
    """Set `fields` of `facts` to their values at `moment`, and return the facts. Nothing is saved."""
    by_key = {fact.pk: fact for fact in facts}
    changes = FactChange.objects.filter(fact__in=by_key, at__gt=moment).order_by("-at", "-id")
    for key, before in changes.values_list("fact_id", "before"):
        _set(by_key[key], {name: value for name, value in recorded_fields(before).items() if name in fields})
    return facts


@dataclass(frozen=True, slots=True)
class HistoricalRows:
    """Index rows of memories that changed after the moment of a request.

    `snapshots` are their versions at that moment, by id of the index row; None if the memory was not visible then.
    `texts` are the current texts of the index rows.
    """

    agent_id: int
    request: SearchRequest
    snapshots: Mapping[int, MemorySnapshot | None]
    texts: Mapping[int, str]

    @property
    def ids(self) -> list[int]:
        return list(self.snapshots)

    def reworded(self, ids: Iterable[int]) -> dict[int, str]:
        """The texts at the moment that are other ones today, of the rows `ids`."""
        entries = ((key, snapshot.entry) for key in ids if (snapshot := self.snapshots.get(key)))
        return {key: entry.text for key, entry in entries if entry and entry.text != self.texts[key]}

    def apply_to(self, candidates: CandidateSet, lexemes: Sequence[str], spellings: Spellings) -> CandidateSet:
        """The candidates with changed memories replaced by their snapshots; those not visible then are left out.

        A snapshot with another text has no vector: its cosines are NaN, and only its words are scored.
        """
        visible = np.array([self.snapshots.get(key, True) is not None for key in candidates.ids], bool)
        rows = candidates.columns
        wanted, cosine, contains, length = (
            candidates.wanted.copy(),
            rows.cosine.copy(),
            rows.contains.copy(),
            rows.length.copy(),
        )
        passage, second, excerpts = rows.passage.copy(), rows.second.copy(), candidates.excerpts.copy()
        moved = rows.moved.copy()
        changed_texts = self.reworded(candidates.ids)
        reworded: dict[int, str] = {}
        for place, key in enumerate(candidates.ids):
            snapshot = self.snapshots.get(key)
            if snapshot is None or snapshot.entry is None:
                continue
            wanted[place] = _passes(self.request, snapshot.entry)
            if key in changed_texts:
                reworded[place] = changed_texts[key]
                cosine[place] = passage[place] = second[place] = np.nan
                moved[place : place + 1] = np.nan
                excerpts[place] = np.nan
        for place, mask, words in _lexeme_masks(self.agent_id, reworded, lexemes, spellings):
            contains[place], length[place] = bits_read([mask], lexemes)[0], words
        changed = replace(
            rows,
            cosine=cosine[visible],
            contains=contains[visible],
            named=rows.named[visible],
            nameless=rows.nameless[visible],
            length=length[visible],
            loop=rows.loop[visible],
            position=rows.position[visible],
            hit=rows.hit[visible],
            says_time=rows.says_time[visible],
            passage=passage[visible],
            second=second[visible],
            speaker=rows.speaker[visible],
            standing=rows.standing[visible],
            asks=rows.asks[visible],
            moved=moved[visible] if len(rows.moved) else rows.moved,
        )
        places = np.flatnonzero(visible).tolist()
        return CandidateSet(
            [candidates.ids[place] for place in places],
            [candidates.types[place] for place in places],
            wanted[visible],
            changed,
            excerpts[visible],
        )


def historical_rows(view: PersonaMemory, request: SearchRequest, moment: datetime) -> HistoricalRows:
    """Historical versions of the index rows that changed after `moment`, as far as `request` searches them."""
    snapshots: dict[Key, MemorySnapshot | None] = {}
    for store in STORES:
        if request.types and store.key not in request.types:
            continue
        recent = view.rows(store.model).filter(created_at__lte=moment, updated_at__gt=moment).order_by("-updated_at")
        rows: Sequence[Any] = rows_as_of(list(recent[:MAX_CHANGED]), moment)
        snapshots |= {
            (store.key.value, str(row.pk)): _snapshot(store, row) if _is_shown(row, moment) else None for row in rows
        }
    if not request.types or ItemType.FACT in request.types:
        recategorised = [(ItemType.FACT.value, str(key)) for key in _recategorised(view, request, moment)]
        facts = memories_as_of(view, recategorised, moment)
        snapshots |= {key: facts.get(key) for key in recategorised}
    index_rows = _index_rows(view, snapshots)
    return HistoricalRows(
        view.agent.pk,
        request,
        {row_id: snapshots[item_type, item_id] for row_id, item_type, item_id, _ in index_rows},
        {row_id: text for row_id, _, _, text in index_rows},
    )


def _recategorised(view: PersonaMemory, request: SearchRequest, moment: datetime) -> list[Any]:
    """Ids of facts for which a filter of the request may have another result today than at `moment`."""
    names = [
        name
        for name, is_filtered in (
            ("category", request.categories or request.exclude_categories),
            ("scope", request.scopes),
            ("project", not request.scope.all_projects),
            ("task", not request.scope.all_projects),
            ("user", not request.scope.all_users),
            ("tags", request.tags),
            ("importance", request.min_importance),
        )
        if is_filtered
    ]
    if not names:
        return []
    touched = Q()
    for name in names:
        touched |= Q(before__has_key=name)
    changes = FactChange.objects.filter(
        touched, at__gt=moment, fact__agent=view.agent, fact__persona__in=view.personas, fact__recorded_at__lte=moment
    )
    latest = changes.order_by().values("fact_id").annotate(last=Max("id")).order_by("-last")[:MAX_CHANGED]
    return [row["fact_id"] for row in latest]


def _index_rows(view: PersonaMemory, keys: Iterable[Key]) -> list[tuple[int, str, str, str]]:
    keys = list(keys)
    if not keys:
        return []
    wanted = "(item_type, item_id) IN (SELECT * FROM unnest(%(types)s::text[], %(ids)s::text[]))"
    return list(
        sql_rows(
            f"SELECT * FROM {source_of(view, 'id, item_type, item_id, text', wanted)} AS item",  # noqa: S608
            {"types": [key[0] for key in keys], "ids": [key[1] for key in keys]},
        )
    )


def _lexeme_masks(
    agent_id: int, texts: Mapping[int, str], lexemes: Sequence[str], spellings: Spellings
) -> list[tuple[int, int, int]]:
    """For each text: its key, the lexemes that it contains as bits, and its number of words."""
    if not texts:
        return []
    contains, _ = masks_of(has_spellings(lexemes, spellings))
    return list(
        sql_rows(
            f"SELECT place, {contains}, nous_word_count(terms) FROM ("  # noqa: S608
            f"SELECT place, {terms_sql(agent_id, 'text')} AS terms"
            " FROM unnest(%(places)s::int[], %(texts)s::text[]) AS given (place, text)) AS reworded",
            {**lexeme_values(lexemes, spellings), "places": list(texts), "texts": list(texts.values())},
        )
    )


def _passes(request: SearchRequest, entry: IndexEntry) -> bool:
    """Whether an entry passes the filters of the request: the same conditions as `wanted_of` in SQL."""
    chosen = ((request.types, entry.item_type), (request.kinds, entry.kind), (request.categories, entry.category),
              (request.scopes, entry.scope))  # fmt: skip
    return (
        request.scope.shows(entry)
        and all(not values or value in values for values, value in chosen)
        and entry.category not in request.exclude_categories
        and (not request.tags or bool(set(request.tags) & set(entry.tags)))
        and entry.importance >= request.min_importance
        and (not request.item_ids or entry.item_id in request.item_ids)
    )


def _is_shown(row: Any, moment: datetime) -> bool:
    """Whether a row, as it was at `moment`, was in use then."""
    end = ends_at(row)
    return bool(row.active) and (end is None or end > moment)


def _snapshot(memory_type: MemoryType, memory: Any) -> MemorySnapshot:
    return MemorySnapshot(memory_type.text(memory), memory_type.metadata(memory), memory.trust, entry_of(memory))


def _set(row: Model, values: Mapping[str, Any]) -> None:
    """Set the attributes in `values` that are columns of `row`; a value that its column does not accept is skipped."""
    for column in row._meta.concrete_fields:
        # No record changes the owner and the creation time of a memory.
        if column.name not in values or column.is_relation or not column.editable or column.name == "persona":
            continue
        try:
            setattr(row, column.name, _cleaned(column, values[column.name]))
        except (ValidationError, TypeError, ValueError, OverflowError):
            continue


def _cleaned(column: Any, value: Any) -> Any:
    """A value as the column stores it. Raises ValidationError, since an imported record may contain anything."""
    texts = value if isinstance(column, ArrayField) and isinstance(value, list) else [value]
    if isinstance(column, ArrayField | CharField | TextField) and not all(isinstance(text, str) for text in texts):
        raise ValidationError("is text")
    if isinstance(value, bool) and not isinstance(column, BooleanField):
        raise ValidationError("is not true or false")
    cleaned = column.clean(value, None)
    # The column's own checks accept NaN, and moments without a time zone.
    if cleaned != cleaned or (isinstance(cleaned, datetime) and cleaned.tzinfo is None):
        raise ValidationError("is no value")
    return cleaned
