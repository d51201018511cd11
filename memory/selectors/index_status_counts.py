"""How many rows of an agent's search index are ready, pending or failed."""

from collections.abc import Collection

from django.db import connection

from memory.search.index_tables import PERSONA_OF_TABLE


def index_counts(agent_id: int, personas: Collection[str]) -> dict[str, int]:
    """Rows of an agent's index by status: ready, pending, failed."""
    # Each persona's table by itself: all are counted in one index, and what is not ready, mostly nothing, in another.
    parts = []
    for table, persona in PERSONA_OF_TABLE.items():
        if persona in personas:
            mine = f"FROM {table} WHERE agent_id = {int(agent_id)}"
            parts.append(f"SELECT 'ready', count(*) {mine}")
            parts.append(f"SELECT status, count(*) {mine} AND status <> 'ready' GROUP BY status")
    counts = {"ready": 0, "pending": 0, "failed": 0}
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts))
        for status, number in cursor.fetchall():
            counts[status] += number
    counts["ready"] -= counts["pending"] + counts["failed"]
    return counts
