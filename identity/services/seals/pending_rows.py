"""The committed rows that have no seal yet, and the horizon below which there are none.

A number of a sequence is assigned before the commit, so a row with a lower number may become visible later than one
with a higher number. So rows are looked for from a floor on, and the floor moves only when no transaction is left that
may still write below it. A row that appears below it was not written by the product.
"""

from datetime import datetime
from typing import NamedTuple

from django.db import connection

from identity.models import LogHorizon
from identity.policy.seal_limits import SETTLED
from identity.policy.sealed_tables import SealedTable
from nousweb.lib import clock
from nousweb.lib.distribution import is_distributed


class Pending(NamedTuple):
    """The key of a row, and the chain that it belongs to."""

    key: str
    agent_id: int | None
    persona: str


_NUMBERED = """
SELECT t.id::text, {agent}, {persona} FROM {table} t {join}
WHERE t.id > %(floor)s AND t.id::text NOT IN (
    SELECT unnest(l.keys) FROM identity_logleaves l WHERE l.kind = %(kind)s AND l.last_key > %(floor)s)
ORDER BY t.id LIMIT %(limit)s
"""
_BY_CHAIN = """
SELECT waiting.id::text, held.agent_id, held.persona
FROM (SELECT a.id AS agent_id, p.persona FROM identity_agent a, unnest(ARRAY['actor', 'subconscious']) p(persona)) held
LEFT JOIN LATERAL (
    SELECT s.floor FROM identity_logseal s
    WHERE s.agent_id = held.agent_id AND s.persona = held.persona AND s.kind = %(kind)s
    ORDER BY s.number DESC LIMIT 1) last ON true
CROSS JOIN LATERAL (
    SELECT t.id FROM {table} t
    WHERE t.agent_id = held.agent_id AND t.persona = held.persona AND t.id > coalesce(last.floor, 0)
    ORDER BY t.id LIMIT 1000) waiting
ORDER BY held.agent_id, held.persona, waiting.id LIMIT %(limit)s
"""
FLOORS = """
SELECT a.id AS agent_id, p.persona, (
    SELECT s.floor FROM identity_logseal s WHERE s.agent_id = a.id AND s.persona = p.persona AND s.kind = %(kind)s
    ORDER BY s.number DESC LIMIT 1) AS floor
FROM identity_agent a, unnest(ARRAY['actor', 'subconscious']) p(persona)"""
"""Up to which key each chain is sealed."""
# Citus goes from chain to chain only where a table that it distributes has them.
_BY_CHAIN_ROUTED = f"""
WITH floors AS MATERIALIZED ({FLOORS})
SELECT waiting.id::text, held.agent_id, held.persona
FROM {{counters}} held LEFT JOIN floors last ON last.agent_id = held.agent_id AND last.persona = held.persona
CROSS JOIN LATERAL (
    SELECT t.id FROM {{table}} t
    WHERE t.agent_id = held.agent_id AND t.persona = held.persona AND t.id > coalesce(last.floor, 0)
    ORDER BY t.id LIMIT 1000) waiting
WHERE held.last > coalesce(last.floor, 0)
ORDER BY held.agent_id, held.persona, waiting.id LIMIT %(limit)s
"""  # noqa: S608
_NAMED = """
SELECT t.id::text, {agent}, {persona} FROM {table} t {join}
WHERE t.id::text NOT IN (SELECT unnest(l.keys) FROM identity_logleaves l WHERE l.kind = %(kind)s)
ORDER BY {agent}, t.section, t.version LIMIT %(limit)s
"""


def pending_rows(table: SealedTable, floor: int, limit: int) -> list[Pending]:
    """The rows of a table that are in no seal, up to `limit`, in the order in which they are to be sealed."""
    by_chain = _BY_CHAIN_ROUTED if is_distributed() else _BY_CHAIN
    form = (by_chain if table.by_chain else _NUMBERED) if table.numbered else _NAMED
    counters = table.counters._meta.db_table if table.counters else ""
    statement = form.format(
        table=table.table, agent=table.agent, persona=table.persona, join=table.join, counters=counters
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, {"kind": table.name, "floor": floor, "limit": limit})
        return [Pending(*row) for row in cursor.fetchall()]


def horizon_move(table: SealedTable) -> tuple[LogHorizon, int | None]:
    """The horizon of a table, and the key up to which all rows are now there or never will be, where that is known.

    To be called before the pending rows are read. The highest key is noted first, later the number of the next
    transaction, and when all before that one have ended it is known.
    """
    horizon, _ = LogHorizon.objects.get_or_create(kind=table.name)
    if not table.numbered or table.by_chain:
        return horizon, None
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_snapshot_xmin(now.snapshot)::text::bigint, pg_snapshot_xmax(now.snapshot)::text::bigint,"  # noqa: S608
            f" (SELECT coalesce(max(id), 0) FROM {table.table}) FROM pg_current_snapshot() now(snapshot)"
        )
        oldest, following, highest = cursor.fetchone()
    if horizon.next_transaction is not None and oldest >= horizon.next_transaction:
        return horizon, None if is_distributed() and _is_open_since(horizon.noted_at) else horizon.next_floor
    if horizon.next_floor is None or (horizon.next_transaction or 0) > following:
        # The second: a dump was restored on a server that counts its transactions from the beginning.
        horizon.next_transaction = None
        horizon.next_floor, horizon.noted_at = highest, clock.now()
    elif horizon.next_transaction is None and horizon.noted_at and clock.now() - horizon.noted_at >= SETTLED:
        horizon.next_transaction = following
    return horizon, None


def _is_open_since(noted_at: datetime | None) -> bool:
    """Whether a transaction is open that may have taken a number before. One that only wrote on other servers of a
    cluster has no number of its own on the coordinator."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND xact_start < %s)",
            [noted_at],
        )
        return bool(cursor.fetchone()[0])


def horizon_settle(
    horizon: LogHorizon, known: int | None, oldest_left: int | None, *, done_at: datetime | None
) -> None:
    """Write down how far the sealer has come; `oldest_left` is the lowest key that waits for a later seal."""
    if known is not None:
        floor = known if oldest_left is None else min(known, oldest_left - 1)
        horizon.floor = max(horizon.floor, floor)
        horizon.next_floor = horizon.next_transaction = horizon.noted_at = None
    horizon.done_at = done_at or horizon.done_at
    horizon.save()
