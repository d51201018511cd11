"""From rows of the index to the memories themselves, read through the persona's view once more.

The index may be behind by a moment; what the view does not show, or what is retired, never leaves here.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from memory.models import ItemType, Procedure
from memory.persona import PersonaMemory

Loaded = tuple[str, Mapping[str, Any]]


def _events(view: PersonaMemory, ids: Sequence[str], as_of: datetime | None) -> dict[str, Loaded]:
    rows = view.events.filter(pk__in=[int(item) for item in ids]).values_list("pk", "content", "metadata")
    return {str(pk): (content, metadata) for pk, content, metadata in rows}


def _facts(view: PersonaMemory, ids: Sequence[str], as_of: datetime | None) -> dict[str, Loaded]:
    facts = view.facts.as_of(as_of) if as_of else view.facts.active()
    names = ("subject", "category", "kind", "confidence", "source", "valid_from", "valid_until")
    rows = facts.filter(pk__in=ids).values_list("pk", "content", *names)
    return {str(pk): (content, dict(zip(names, about, strict=True))) for pk, content, *about in rows}


def _episodes(view: PersonaMemory, ids: Sequence[str], as_of: datetime | None) -> dict[str, Loaded]:
    names = ("title", "outcome", "lessons", "started_at", "ended_at")
    rows = view.episodes.active().filter(pk__in=ids).values("pk", "summary", "detail", *names)
    return {str(row["pk"]): (_episode_text(row), {name: row[name] for name in names}) for row in rows}


def _episode_text(row: Mapping[str, Any]) -> str:
    return "\n".join(part for part in (row["title"], row["summary"] or row["detail"]) if part)


def _procedures(view: PersonaMemory, ids: Sequence[str], as_of: datetime | None) -> dict[str, Loaded]:
    # Its effectiveness is worked out from more than one column.
    columns = ("name", "description", "steps", "domain", "success_count", "failure_count")
    found = view.procedures.active().filter(pk__in=ids).only(*columns)
    return {str(row.pk): (_procedure_text(row), _about_procedure(row)) for row in found}


def _procedure_text(procedure: Procedure) -> str:
    return "\n".join(part for part in (procedure.name, procedure.description, *procedure.steps) if part)


def _about_procedure(procedure: Procedure) -> dict[str, Any]:
    return {
        "name": procedure.name,
        "domain": procedure.domain,
        "steps": procedure.steps,
        "effectiveness": procedure.effectiveness,
    }


def _decisions(view: PersonaMemory, ids: Sequence[str], as_of: datetime | None) -> dict[str, Loaded]:
    names = ("category", "confidence", "stakes", "reasons", "outcome", "outcome_note")
    rows = view.decisions.active().filter(pk__in=ids).values_list("pk", "description", *names)
    return {str(pk): (description, dict(zip(names, about, strict=True))) for pk, description, *about in rows}


_LOADERS: dict[str, Callable[[PersonaMemory, Sequence[str], datetime | None], dict[str, Loaded]]] = {
    ItemType.EVENT: _events,
    ItemType.FACT: _facts,
    ItemType.EPISODE: _episodes,
    ItemType.PROCEDURE: _procedures,
    ItemType.DECISION: _decisions,
}


def memories_load(
    view: PersonaMemory, items: Sequence[tuple[str, str]], as_of: datetime | None = None
) -> dict[tuple[str, str], Loaded]:
    """Content and metadata by (type, id), one query for each type; what may not be shown is missing."""
    wanted: dict[str, list[str]] = {}
    for item_type, item_id in items:
        wanted.setdefault(item_type, []).append(item_id)
    return {
        (item_type, item_id): loaded
        for item_type, ids in wanted.items()
        for item_id, loaded in _LOADERS[item_type](view, ids, as_of).items()
    }


_TEXT = {
    ItemType.EVENT: "SELECT content, '' FROM memory_event WHERE id = item.item_id::bigint",
    ItemType.FACT: "SELECT content, source FROM memory_fact WHERE id = item.item_id::uuid AND active",
    ItemType.EPISODE: (
        "SELECT concat_ws(E'\\n', nullif(title, ''), coalesce(nullif(summary, ''), nullif(detail, ''))), ''"
        " FROM memory_episode WHERE id = item.item_id::uuid AND active"
    ),
    ItemType.PROCEDURE: (
        "SELECT concat_ws(E'\\n', nullif(name, ''), nullif(description, ''),"
        " nullif(array_to_string(array_remove(steps, ''), E'\\n'), '')), ''"
        " FROM memory_procedure WHERE id = item.item_id::uuid AND active"
    ),
    ItemType.DECISION: "SELECT description, '' FROM memory_decision WHERE id = item.item_id::uuid AND active",
}
"""The text of an item of the index, and its source, in SQL; the same as that of the loaders above."""


def texts_load(view: PersonaMemory, items: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Loaded]:
    """What `memories_load` gives, of the metadata only the source, in one query for all types."""
    owned = "agent_id = %(agent)s AND persona = ANY(%(personas)s)"
    types = sorted({item_type for item_type, _ in items})
    parts = [
        f"SELECT item.item_type, item.item_id, own.content, own.source FROM wanted AS item"  # noqa: S608
        f" CROSS JOIN LATERAL ({_TEXT[ItemType(item_type)]} AND {owned}) AS own (content, source)"
        f" WHERE item.item_type = '{ItemType(item_type)}'"
        for item_type in types
    ]
    if not parts:
        return {}
    statement = f"""
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest(%(types)s::text[], %(ids)s::text[]) AS given (item_type, item_id)
)
{" UNION ALL ".join(parts)}
"""  # noqa: S608
    values: dict[str, Any] = {
        "agent": view.agent.pk,
        "personas": list(view.personas),
        "types": [item_type for item_type, _ in items],
        "ids": [item_id for _, item_id in items],
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return {(item_type, item_id): (content, {"source": source}) for item_type, item_id, content, source in cursor}
