"""Whether Citus has distributed the tables of agents (`manage.py distribute`): some statements differ there."""

from functools import cache

from django.db import connection


@cache
def is_distributed() -> bool:
    """Whether the tables of agents are distributed. The database itself tells, once per process."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL")
        if not cursor.fetchone()[0]:
            return False
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE partmethod = 'h'"
            " AND logicalrelid = to_regclass('memory_event'))"
        )
        return bool(cursor.fetchone()[0])
