"""Counts of collections that are too large to count at every search; their vector indexes are in vector_indexes.py."""

from django.conf import settings
from django.db import connection, transaction

from memory.models import SearchStatistics
from memory.search.index_tables import PERSONA_OF_TABLE
from memory.search.query_word_counts import COUNTED
from memory.search.vector_indexes import may_index, vector_indexes_keep
from nousweb.lib import clock
from nousweb.lib.transactions import advisory_lock

COUNT_FROM = 2_000
"""Items of a collection from which its counts are kept."""
DRIFT = 0.1
"""Counts are renewed when the number of items has changed by this share."""


def statistics_refresh() -> int:
    """Renew the counts of large collections that have changed; returns how many. One run at a time does it.

    Outside of any transaction. Where this program owns the tables itself, and no pooler shares its connection, it keeps
    their vector indexes too.
    """
    with advisory_lock("nous.search.statistics") as mine:
        if not mine:
            return 0
        renewed = _refresh()
    # What the making of an index sets on its connection would be another's behind a pooler.
    if settings.DB_PREPARE and may_index():
        vector_indexes_keep()
    return renewed


def _refresh() -> int:
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
            elif row is None or abs(size - row.items) > DRIFT * row.items:
                _count(table, persona, agent_id, row)
                renewed += 1
    return renewed


def statistics_recount(agent_id: int) -> None:
    """Count the words of an agent's large collections again, after they were read otherwise."""
    for row in SearchStatistics.objects.filter(agent=agent_id):
        table = next(table for table, persona in PERSONA_OF_TABLE.items() if persona == row.persona)
        _count(table, row.persona, agent_id, row)


def _count(table: str, persona: str, agent_id: int, row: SearchStatistics | None) -> None:
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
