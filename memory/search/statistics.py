"""Counts and approximate vector indexes for collections too large to count and scan at every search."""

import hashlib

from django.db import connection, transaction

from memory.models import EmbeddingModel, SearchStatistics
from memory.search.candidates import COUNTED, PERSONA_OF_TABLE
from nousweb.lib import clock

COUNT_FROM = 2_000
"""Items of a collection from which its counts are kept."""
INDEX_FROM = 5_000
"""Items from which a collection gets an approximate index. Below, reading all its vectors is quick, and exact."""
DRIFT = 0.1
"""Counts are renewed when the number of items has changed by this share."""
MAX_INDEXED_DIMENSION = 4_000
"""Of pgvector's halfvec."""


def statistics_refresh() -> int:
    """Renew the counts of large collections that have changed, and build or drop their indexes; returns how many.

    Outside of any transaction: an index is built without stopping writers. One run at a time does it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtext('nous.search.statistics'))")
        if not cursor.fetchone()[0]:
            return 0
        try:
            return _refresh()
        finally:
            cursor.execute("SELECT pg_advisory_unlock(hashtext('nous.search.statistics'))")


def _refresh() -> int:
    active = EmbeddingModel.objects.filter(state=EmbeddingModel.State.ACTIVE).first()
    held = {(row.persona, row.agent_id): row for row in SearchStatistics.objects.all()}
    renewed = 0
    for table, persona in PERSONA_OF_TABLE.items():
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT agent_id, count(*) FROM {table} GROUP BY agent_id")  # noqa: S608
            sizes = dict(cursor.fetchall())
        for agent_id in sizes.keys() | {agent for kept, agent in held if kept == persona}:
            size = sizes.get(agent_id, 0)
            row = held.get((persona, agent_id))
            if size < COUNT_FROM * (1 - DRIFT if row else 1):
                if row:
                    row.delete()
                    _indexes_drop(table, agent_id, keep="")
                continue
            if row is None or abs(size - row.items) > DRIFT * row.items:
                row = _count(table, persona, agent_id, row)
                renewed += 1
            _index_ensure(table, row, active)
    return renewed


def _count(table: str, persona: str, agent_id: int, row: SearchStatistics | None) -> SearchStatistics:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"SELECT count(*), coalesce(avg(words), 0) FROM {table} WHERE agent_id = %s AND active",  # noqa: S608
            [agent_id],
        )
        items, mean = cursor.fetchone()
        cursor.execute(
            "SELECT word, ndoc FROM ts_stat(%s) WHERE ndoc >= %s",
            [f"SELECT terms FROM {table} WHERE agent_id = {int(agent_id)} AND active", COUNTED // 10],  # noqa: S608
        )
        common = dict(cursor.fetchall())
        row = row or SearchStatistics(agent_id=agent_id, persona=persona)
        row.items, row.mean_words, row.common, row.counted_at = items, float(mean), common, clock.now()
        row.save()
        return row


def _index_ensure(table: str, row: SearchStatistics, active: EmbeddingModel | None) -> None:
    """Make the index of the active model's vectors, or drop that of another model; the row says which there is."""
    wanted = active is not None and row.items >= INDEX_FROM and active.dimension <= MAX_INDEXED_DIMENSION
    model = active.name if active and wanted else ""
    name = _index_name(table, row.agent_id, model)
    if row.vector_index_model != model and row.vector_index_model:
        # Searches must not rely on it any more before it goes.
        SearchStatistics.objects.filter(pk=row.pk).update(vector_index_model="")
    if active and model and row.vector_index_model != model:
        with connection.cursor() as cursor:
            # One that was interrupted is there and invalid: it helps nobody.
            cursor.execute(f"DROP INDEX IF EXISTS {name}")
            literal = model.replace("'", "''")
            cursor.execute(
                f"CREATE INDEX CONCURRENTLY {name} ON {table} "
                f"USING hnsw ((embedding::halfvec({int(active.dimension)})) halfvec_ip_ops) "
                f"WHERE persona = '{row.persona}' AND agent_id = {int(row.agent_id)} AND model = '{literal}'"
            )
            cursor.execute(f"ANALYZE {table}")
    SearchStatistics.objects.filter(pk=row.pk).update(vector_index_model=model)
    _indexes_drop(table, row.agent_id, keep=name if model else "")


def _index_name(table: str, agent_id: int, model: str) -> str:
    return f"{table}_near_{int(agent_id)}_{hashlib.sha256(model.encode()).hexdigest()[:8]}"


def _indexes_drop(table: str, agent_id: int, *, keep: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND tablename = %s"
            " AND starts_with(indexname, %s) AND indexname <> %s",
            [table, f"{table}_near_{int(agent_id)}_", keep],
        )
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP INDEX IF EXISTS {name}")
