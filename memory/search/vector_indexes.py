"""Approximate vector indexes of large collections. Only the owner of the tables may make and drop them."""

import hashlib
import os

from psycopg import sql

from memory.models import EmbeddingModel, SearchStatistics
from memory.search.index_tables import PASSAGES_OF_TABLE, PERSONA_OF_TABLE
from nousweb.lib.transactions import advisory_lock, sql_change, sql_row, sql_rows

INDEX_FROM = 5_000
"""Items, or passages of a counted collection, from which they get an approximate index. Below, reading all vectors is
quick, and exact."""
MAX_INDEXED_DIMENSION = 4_000
"""Of pgvector's halfvec."""
GRAPH_BYTES = 900
"""Of an item in the graph, beside two bytes for each number of its vector. A graph that does not fit into the memory
for building it is built many times more slowly."""
LEAST_MEGABYTES = 64


def may_index() -> bool:
    """Whether this connection's role owns the tables of the index."""
    return bool(
        sql_row("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'memory_searchitem'::regclass")[0]
    )


def vector_indexes_keep() -> int:
    """Make the index of each collection that the statistics call large, drop those of others; returns how many changed.

    As the owner of the tables, and outside of any transaction: an index is built without stopping writers. One run
    at a time does it. The statistics and the name of the model are data that the product wrote.
    """
    with advisory_lock("nous.search.indexes") as mine:
        if not mine:
            return 0
        active = EmbeddingModel.objects.filter(state=EmbeddingModel.State.ACTIVE).first()
        return sum(
            _keep(table, persona, active) + _keep_passages(PASSAGES_OF_TABLE[table], persona, active)
            for table, persona in PERSONA_OF_TABLE.items()
        )


def _keep(table: str, persona: str, active: EmbeddingModel | None) -> int:
    changed = 0
    wanted = set()
    for row in SearchStatistics.objects.filter(persona=persona):
        large = active is not None and row.items >= INDEX_FROM and active.dimension <= MAX_INDEXED_DIMENSION
        model = active.name if active and large else ""
        if row.vector_index_model != model and row.vector_index_model:
            # Searches must not rely on it any more before it goes.
            SearchStatistics.objects.filter(pk=row.pk).update(vector_index_model="")
        if active and model:
            name = _name(table, row.agent_id, model)
            wanted.add(name)
            if row.vector_index_model != model:
                _make(name, table, persona, row.agent_id, active, row.items)
                SearchStatistics.objects.filter(pk=row.pk).update(vector_index_model=model)
                changed += 1
    return changed + _drop_others(table, wanted)


def _keep_passages(table: str, persona: str, active: EmbeddingModel | None) -> int:
    """The same for the passages of the collections that are counted."""
    wanted, changed = set(), 0
    if active is not None and active.dimension <= MAX_INDEXED_DIMENSION:
        for agent_id in SearchStatistics.objects.filter(persona=persona).values_list("agent_id", flat=True):
            # Counted no further than need be, in an index.
            few = f"SELECT 1 FROM {table} WHERE agent_id = %s AND model = %s LIMIT %s"  # noqa: S608
            found = sql_row(f"SELECT count(*) FROM ({few}) AS few", [agent_id, active.name, INDEX_FROM])  # noqa: S608
            if found[0] >= INDEX_FROM:
                name = _name(table, agent_id, active.name)
                wanted.add(name)
                if not _is_valid(name):
                    _make(name, table, persona, agent_id, active, _count(table, agent_id, active.name))
                    changed += 1
    return changed + _drop_others(table, wanted)


def _count(table: str, agent_id: int, model: str) -> int:
    return int(sql_row(f"SELECT count(*) FROM {table} WHERE agent_id = %s AND model = %s", [agent_id, model])[0])  # noqa: S608


def build_megabytes(items: int, dimension: int) -> int:
    """Memory for building the index of so many vectors in one piece, in MiB; a quarter of this machine's at most."""
    quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 // 2**20
    return max(LEAST_MEGABYTES, min(quarter, items * (2 * dimension + GRAPH_BYTES) // 2**20))


def _is_valid(name: str) -> bool:
    found = sql_row("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [name])
    return bool(found and found[0])


def _make(name: str, table: str, persona: str, agent_id: int, model: EmbeddingModel, items: int) -> None:
    # One that was interrupted is there and invalid: it helps nobody.
    sql_change(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(name)))
    memory = f"{build_megabytes(items, model.dimension)}MB"
    sql_change("SELECT set_config('maintenance_work_mem', %s, false)", [memory])
    # By one process: others would take all of that as shared memory, which containers have little of, and the
    # cores from the searches that go on.
    sql_change("SET max_parallel_maintenance_workers = 0")
    sql_change(
        sql.SQL(
            "CREATE INDEX CONCURRENTLY {} ON {} USING hnsw ((embedding::halfvec({})) halfvec_ip_ops)"
            " WHERE persona = {} AND agent_id = {} AND model = {}"
        ).format(
            sql.Identifier(name),
            sql.Identifier(table),
            sql.Literal(int(model.dimension)),
            sql.Literal(persona),
            sql.Literal(int(agent_id)),
            sql.Literal(model.name),
        )
    )
    sql_change("RESET maintenance_work_mem")
    sql_change("RESET max_parallel_maintenance_workers")
    sql_change(sql.SQL("ANALYZE {}").format(sql.Identifier(table)))


def _name(table: str, agent_id: int, model: str) -> str:
    return f"{table}_near_{int(agent_id)}_{hashlib.sha256(model.encode()).hexdigest()[:8]}"


def _drop_others(table: str, wanted: set[str]) -> int:
    found = sql_rows(
        "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND tablename = %s"
        " AND starts_with(indexname, %s) AND indexname <> ALL(%s)",
        [table, f"{table}_near_", list(wanted)],
    )
    for (name,) in found:
        sql_change(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(name)))
    return len(found)
