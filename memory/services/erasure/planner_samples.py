"""The planner's samples of tables, which hold values of erased rows until they are taken again."""

from datetime import timedelta

from django.db import connection

from memory.services.erasure.quotes import RECEIPTS

SETTLED = timedelta(minutes=5)
"""An analysis that began before an erasure may end after it, so tables are analyzed again this long after it."""

_DUE = """
WITH last AS (
    SELECT max(receipt.at) AS at FROM unnest(%s::text[]) AS one
    CROSS JOIN LATERAL (SELECT at FROM identity_auditevent WHERE action = one ORDER BY id DESC LIMIT 1) receipt),
later AS (SELECT at, at + make_interval(secs => %s) AS settled FROM last),
due AS (SELECT CASE WHEN now() >= settled THEN settled ELSE at END AS since FROM later)
SELECT s.relname FROM pg_stat_user_tables s CROSS JOIN due
WHERE s.schemaname = current_schema()
  AND coalesce(greatest(s.last_analyze, s.last_autoanalyze), '-infinity') < due.since
  AND EXISTS (SELECT 1 FROM pg_stats p WHERE p.schemaname = s.schemaname AND p.tablename = s.relname)
ORDER BY s.relname
"""


def reanalyze_tables() -> int:
    """Analyze the tables again whose planner statistics are older than the last erasure; returns their number."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, [list(RECEIPTS), SETTLED.total_seconds()])
        tables = [row[0] for row in cursor.fetchall()]
        for table in tables:
            cursor.execute("SELECT nous_sample_renew(%s)", [table])
    return len(tables)
