"""Whether Citus has distributed the tables of agents (`manage.py distribute`): some statements differ there."""

from functools import cache

from nousweb.lib.transactions import sql_row


@cache
def is_distributed() -> bool:
    """Whether the tables of agents are distributed. The database itself tells, once per process."""
    if not sql_row("SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL")[0]:
        return False
    return bool(
        sql_row(
            "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE partmethod = 'h'"
            " AND logicalrelid = to_regclass('memory_event'))"
        )[0]
    )
