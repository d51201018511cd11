"""Write the search index, in the transaction of the memory's own write. Embeddings follow later."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from typing import Any

from memory.jobs import message_send
from memory.models import COLUMNS
from memory.search.languages import dictionary_sql
from memory.types import IndexEntry
from memory.types.memory_type import KEPT_ELSEWHERE
from nousweb.lib.transactions import sql_change, sql_row

_TYPES = {
    "agent_id": "bigint",
    "position": "bigint",
    "tags": "jsonb",
    "importance": "double precision",
    "active": "boolean",
    "happened_at": "timestamptz",
    "recorded_at": "timestamptz",
    "retired_at": "timestamptz",
    "valid_from": "timestamptz",
    "valid_until": "timestamptz",
}
_FIELDS = [field.name for field in fields(IndexEntry) if field.name not in KEPT_ELSEWHERE]
_COLUMNS = [COLUMNS.get(name, name) for name in _FIELDS]
_CHANGING = [name for name in _COLUMNS if name not in ("agent_id", "persona", "item_type", "item_id")]
_ARRAYS = ", ".join(f"%s::{_TYPES.get(name, 'text')}[]" for name in _COLUMNS)
# One statement of arrays: for a thousand rows several times as fast as a statement a row.
_UPSERT = f"""
INSERT INTO memory_searchitem ({", ".join(_COLUMNS)}, dictionary)
SELECT entry.*, {dictionary_sql("%s::bigint")} FROM unnest({_ARRAYS}) AS entry ({", ".join(_COLUMNS)})
ON CONFLICT (persona, item_type, item_id, agent_id) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in (*_CHANGING, "dictionary"))},
    status = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.status ELSE 'pending' END,
    attempts = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.attempts ELSE 0 END,
    error = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.error ELSE '' END,
    due_at = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.due_at END,
    embedding = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.embedding END,
    model = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.model ELSE '' END,
    passages = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.passages END,
    next_embedding = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.next_embedding END,
    next_model = CASE WHEN memory_searchitem.text = excluded.text THEN memory_searchitem.next_model ELSE '' END
"""  # noqa: S608  (names come from the dataclass above)

_WAITING = """
SELECT EXISTS (SELECT 1 FROM memory_searchitem WHERE agent_id = ANY(%s) AND status = 'pending' AND due_at IS NULL)
"""


def index_put(entries: Iterable[IndexEntry], *, notify: bool = True) -> None:
    """Insert or update index rows; a row with a changed text becomes pending for a new embedding. Rows of quarantined
    memories are deleted, so that no search finds them.

    Of several entries of one item, the last counts. The worker is notified in the same transaction, unless other rows
    of these agents are pending, for which it has been notified already. Without `notify` it is not notified, since the
    caller stores the vectors itself.
    """
    latest = {(entry.persona, entry.item_type, entry.item_id): entry for entry in entries}
    for key in [key for key, entry in latest.items() if entry.quarantined]:
        index_remove(latest[key].agent_id, *key[:2], [key[2]])
        del latest[key]
    if not latest:
        return
    # Always in the same order, to avoid deadlocks of two writers.
    rows = sorted(latest.values(), key=lambda entry: (entry.agent_id, entry.persona, entry.item_type, entry.item_id))
    agents = [sorted({entry.agent_id for entry in rows})]
    notified = sql_row(_WAITING, agents)[0]
    for agent_id, own in groupby(rows, key=attrgetter("agent_id")):
        sql_change(_UPSERT, [agent_id, *_columns(list(own))])
    if notify and not notified and sql_row(_WAITING, agents)[0]:
        message_send("memory.tasks.embed_pending")


def _columns(rows: Sequence[IndexEntry]) -> list[list[Any]]:
    columns = [[getattr(entry, name) for entry in rows] for name in _FIELDS]
    tags = _COLUMNS.index("tags")
    columns[tags] = [json.dumps(value) for value in columns[tags]]
    return columns


def index_remove(agent_id: int, persona: str, item_type: str, item_ids: Iterable[str]) -> None:
    """Delete index rows, for memories that are erased or quarantined."""
    sql_change(
        "DELETE FROM memory_searchitem WHERE agent_id = %s AND persona = %s AND item_type = %s AND item_id = ANY(%s)",
        [agent_id, persona, item_type, list(item_ids)],
    )
