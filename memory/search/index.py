"""Writing the search index. Called inside the transaction of the primary write; embeddings follow later."""

import json
from collections.abc import Iterable
from dataclasses import astuple, fields

from django.db import connection

from memory.search.entries import IndexEntry

_COLUMNS = [field.name for field in fields(IndexEntry)]
_CHANGING = [name for name in _COLUMNS if name not in ("agent_id", "persona", "item_type", "item_id")]
_UPSERT = f"""
INSERT INTO memory_searchitem ({", ".join(_COLUMNS)}) VALUES ({", ".join(["%s"] * len(_COLUMNS))})
ON CONFLICT (persona, item_type, item_id) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in _CHANGING)},
    status = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.status ELSE 'pending' END,
    attempts = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.attempts ELSE 0 END,
    error = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.error ELSE '' END,
    embedding = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.embedding END,
    model = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.model ELSE '' END
"""  # noqa: S608  (names come from the dataclass above)


def index_put(entries: Iterable[IndexEntry]) -> None:
    """Insert or update rows of the index; a row whose text changed waits for a new embedding."""
    rows = [
        [json.dumps(value) if name == "tags" else value for name, value in zip(_COLUMNS, astuple(entry), strict=True)]
        for entry in entries
    ]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(_UPSERT, rows)


def index_remove(persona: str, item_type: str, item_ids: Iterable[str]) -> None:
    """Delete rows of the index, for memories that are erased."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM memory_searchitem WHERE persona = %s AND item_type = %s AND item_id = ANY(%s)",
            [persona, item_type, list(item_ids)],
        )


def index_counts(agent_id: int, personas: Iterable[str]) -> dict[str, int]:
    """Rows of an agent's index by status: ready, pending, failed."""
    counts = {"ready": 0, "pending": 0, "failed": 0}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT status, count(*) FROM memory_searchitem WHERE agent_id = %s AND persona = ANY(%s) GROUP BY status",
            [agent_id, list(personas)],
        )
        counts.update(dict(cursor.fetchall()))
    return counts
