"""Rebuild the search index from the primary rows."""

from collections.abc import Callable, Iterator
from typing import Any

from django.db import connection, transaction

from identity.models import Agent
from memory.jobs import message_send
from memory.services.search_index.row_embedding import requeue_stale_embeddings
from memory.services.search_index.writer import index_put
from memory.types import MEMORY_TYPES, entry_of

REBUILD_BATCH = 500


def index_rebuild(*, agent: Agent | None = None, progress: Callable[[int, int], None] | None = None) -> dict[str, int]:
    """Rebuild every row of the index from the primary rows, and delete rows that have none.

    Into place, in batches of their own transactions: searches go on answering from what is there, and vectors of
    unchanged texts are kept; long texts without passages get theirs from the worker. `progress` is called with
    (done, all). Returns "written" and "deleted".
    """
    total = sum(rows.count() for rows in _primary(agent))
    done = deleted = 0
    for one in [agent] if agent else Agent.objects.order_by("pk"):
        for rows in _primary(one):
            for batch in _batches(rows.values_list("pk", flat=True).order_by("pk")):
                with transaction.atomic():
                    # Locked, so that no writer's newer row is overwritten by what was read before it.
                    held = rows.filter(pk__in=batch).order_by("pk").select_for_update(of=("self",))
                    index_put([entry_of(row) for row in held])
                done += len(batch)
                if progress:
                    progress(done, total)
        deleted += _delete_orphans(one)
    if requeue_stale_embeddings():
        message_send("memory.tasks.embed_pending")
    return {"written": done, "deleted": deleted}


def _primary(agent: Agent | None) -> list[Any]:
    every = [one.indexed_rows() for one in MEMORY_TYPES.values()]
    return [rows.filter(agent=agent) if agent else rows for rows in every]


def _batches(keys: Any) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for key in keys.iterator(chunk_size=10_000):
        batch.append(key)
        if len(batch) == REBUILD_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


_KEYS = " UNION ALL ".join(
    f"SELECT '{key}' AS type, {one.indexed_key}::text AS id FROM {rows.model._meta.db_table}"  # noqa: S608
    " WHERE agent_id = %(agent)s"
    for key, one in MEMORY_TYPES.items()
    for rows in (one.indexed_rows(),)
)
_ORPHANS = f"""
DELETE FROM memory_searchitem AS item WHERE agent_id = %(agent)s
AND NOT EXISTS (SELECT 1 FROM ({_KEYS}) AS held WHERE held.type = item.item_type AND held.id = item.item_id)
"""  # noqa: S608


def _delete_orphans(agent: Agent) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_ORPHANS, {"agent": agent.pk})
        return cursor.rowcount
