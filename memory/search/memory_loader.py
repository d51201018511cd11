"""Load the memories of index rows through the persona's view.

The index may be behind by a moment; what the view does not show, or what is retired, never leaves here.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from django.db.models import QuerySet

from identity.models import Agent
from memory.models import (
    COLUMNS,
    SUBJECT_NAME,
    Event,
    ItemType,
    SourceFields,
    valid_at_q,
    valid_at_sql,
)
from memory.persona import VIEWS, PersonaMemory
from memory.search.as_of import memories_as_of
from memory.search.contested_facts import pending_review_sql
from memory.search.index_tables import source_of
from memory.search.result import HIT_COLUMNS
from memory.types import MEMORY_TYPES
from memory.types.memory_type import OF_AGENT
from nousweb.lib import clock
from nousweb.lib.prepared_statements import array_text, rows_prepared

Loaded = tuple[str, Mapping[str, Any], str]
"""Content, metadata and trust class."""


def memories_load(view: PersonaMemory, items: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Loaded]:
    """Content, metadata and trust class by (type, id), one query for each type; what may not be shown is missing."""
    wanted: dict[str, list[str]] = {}
    for item_type, item_id in items:
        wanted.setdefault(item_type, []).append(item_id)
    found: dict[tuple[str, str], Loaded] = {}
    for item_type, ids in wanted.items():
        own = MEMORY_TYPES[item_type]
        rows: QuerySet[Any] = view.rows(own.model).filter(pk__in=ids)
        rows = rows.select_related("long_term") if own.model is Event else rows
        shown = rows.filter(active=True) if own.retires else rows
        shown = shown.filter(valid_at_q(own.model, clock.now()))
        found |= {(item_type, str(row.pk)): (own.text(row), own.metadata(row), row.trust) for row in shown}
    return found


def fact_subject_names(view: PersonaMemory, ids: Sequence[str]) -> dict[str, str]:
    """The registered names of the subjects of facts, by the facts' ids. No statement without facts."""
    rows = view.facts.filter(pk__in=ids).values_list("pk", SUBJECT_NAME)
    return {str(key): name for key, name in rows}


_MOMENTS = {key: own.moments for key, own in MEMORY_TYPES.items()}
"""What JSON has as text, by type."""
CHANGING = ("category", "scope", "project", "task", "user", "tags", "importance")
"""What of a hit people and agents change."""
_ITEM = ", ".join(("item_type", "item_id", *(COLUMNS.get(name, name) for name in HIT_COLUMNS)))


def hits_load(
    view: PersonaMemory,
    ids: Collection[int],
    as_of: datetime | None = None,
    *,
    now: datetime | None = None,
    metadata: bool = True,
    excerpts: Mapping[int, tuple[int, int]] = MappingProxyType({}),
) -> dict[int, dict[str, Any]]:
    """Content and metadata of hits, by id in the index, in one statement. Hits that may not be shown are left out.

    `ids` are those in the index, `excerpts` where a passage of the text there begins and ends. Content and metadata are
    those of `memories_load`, at `now` without `as_of`; of the metadata no more than the source without `metadata`.
    """
    statement = _hits_statement(view.persona, int(view.agent.pk), metadata, as_of is not None)
    names = (
        "content",
        "metadata",
        "subject_name",
        "trust",
        "has_pending_review",
        "attribute",
        "source_changed_at",
        "excerpt",
        "type",
        "id",
        *HIT_COLUMNS,
    )
    values = {
        "ids": array_text(ids),
        "parts": array_text(excerpts),
        "begins": array_text(begin for begin, _ in excerpts.values()),
        "ends": array_text(end for _, end in excerpts.values()),
        "now": now or clock.now(),
    }
    rows = rows_prepared(statement, values, binary=True)
    found = {key: dict(zip(names, row, strict=True)) for key, *row in rows}
    for hit in found.values():
        hit["tags"] = hit["tags"] or []
        hit["excerpt"] = hit["excerpt"].strip()
        hit["subject_name"] = hit["subject_name"] or hit["subject"]
        if not metadata:
            hit["metadata"] = {"source": hit["metadata"]}
        elif moments := _MOMENTS[hit["type"]]:
            about = hit["metadata"]
            about |= {name: datetime.fromisoformat(about[name]) for name in moments if about.get(name)}
    return _as_of(view, found, as_of, metadata=metadata) if as_of else found


@lru_cache(maxsize=256)
def _hits_statement(persona: str, agent: int, metadata: bool, of_the_past: bool) -> str:
    """The same for all that may be found: a statement for each mixture of types would be planned again and again."""
    parts = []
    for item_type, own in MEMORY_TYPES.items():
        about = f"({own.metadata_sql})::json" if metadata else own.source_sql
        # What was shown at a moment is known below.
        shown = " AND active" if own.retires and not of_the_past else ""
        if not of_the_past and (valid := valid_at_sql(own.model, "%(now)s::timestamptz")):
            shown += f" AND {valid}"
        question, named = "false", "''"
        if item_type == ItemType.FACT:
            question, named = pending_review_sql(f"{own.table}.id", agent), "attribute"
        named += ", source_changed_at" if issubclass(own.model, SourceFields) else ", NULL::timestamptz"
        parts.append(
            f"SELECT {own.text_sql}, {about}, ({own.subject_sql})::text, {own.trust_sql}, {question}, {named}".replace(  # noqa: S608
                OF_AGENT, str(agent)
            )
            + f" FROM {own.table}"
            # Asked before the row is looked up, which the key by itself would not be.
            f" WHERE item.item_type = '{item_type}'"
            f" AND id = CASE item.item_type WHEN '{item_type}' THEN item.item_id::{own.key_type} END"
            f" AND agent_id = {agent} AND persona = item.persona{shown}"
        )
    rows = source_of(VIEWS[persona](Agent(pk=agent)), f"id, text, {_ITEM}", "id = ANY(%(ids)s::bigint[])")
    # Most items have no tags, and JSON takes long to read.
    columns = ", ".join(f"item.{name}" for name in _ITEM.split(", "))
    columns = columns.replace("item.tags", "CASE WHEN item.tags <> '[]' THEN item.tags::json END")
    return (
        "SELECT item.id, own.content, own.metadata, own.subject_name, own.trust, own.has_pending_review, own.attribute,"  # noqa: S608
        " own.source_changed_at, coalesce(substr(item.text, part.begins + 1, part.ends - part.begins), ''),"
        f" {columns} FROM {rows} AS item"
        " LEFT JOIN unnest(%(parts)s::bigint[], %(begins)s::integer[], %(ends)s::integer[])"
        " AS part (id, begins, ends) ON part.id = item.id"
        # One row is all there is; told so, the planner looks each up by its key, also in a table it knows nothing of.
        f" CROSS JOIN LATERAL ({' UNION ALL '.join(parts)} LIMIT 1)"
        " AS own (content, metadata, subject_name, trust, has_pending_review, attribute, source_changed_at)"
    )


def _as_of(
    view: PersonaMemory, found: Mapping[int, dict[str, Any]], as_of: datetime, *, metadata: bool
) -> dict[int, dict[str, Any]]:
    """The hits that were visible at a moment, with their content and metadata of that time."""
    then = memories_as_of(view, [(hit["type"], hit["id"]) for hit in found.values()], as_of)
    shown: dict[int, dict[str, Any]] = {}
    for key, hit in found.items():
        if known := then.get((hit["type"], hit["id"])):
            entry = known.entry
            shown[key] = hit | {"content": known.content, "metadata": known.metadata if metadata else hit["metadata"]}
            if entry is not None:
                shown[key] |= {name: getattr(entry, name) for name in CHANGING}
    return shown
