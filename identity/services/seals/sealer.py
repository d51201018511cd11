"""Seal the rows that were committed since the last round. The worker runs it; no writer waits for it.

A number of a sequence is assigned before the commit, so a row with a lower number may become visible later than one
with a higher number. So rows are looked for from a floor on, and the floor moves only when no transaction is left that
may still write below it. A row that appears below it was not written by the product.
"""

import hashlib
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import connection, models, transaction

from identity.models import Agent, LogHorizon, LogLeaves, LogSeal
from identity.policy.sealed_tables import (
    FORMAT,
    ROUND_SECONDS,
    SEAL_EVERY,
    SEAL_ROWS,
    SEALED_TABLES,
    SELECT_ROWS,
    SETTLED,
    TRANSACTION_ROWS,
    SealedTable,
)
from nousweb.lib import clock
from nousweb.lib.distribution import is_distributed
from nousweb.lib.merkle_tree import encode, leaf_hash, tree_root
from nousweb.lib.transactions import sql_change, sql_row, sql_rows

HASH, SALT = 32, 16
"""Bytes of a hash, and of the salt of a leaf."""
NUMBER, UUID = re.compile(r"-?[0-9]{1,18}"), re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Patterns of keys; a leaf that was altered may contain anything."""
EMPTY = re.compile(r"(-|0:|2:\{\}|2:\[\]|4:null)*")
"""The encoding of columns as an erasure leaves them."""


class Row(NamedTuple):
    """A row by its key: its columns as the database encodes them, as `nousweb.lib.merkle_tree.encode` does, those apart
    that an erasure may empty, and when it says it was written where only the product says so."""

    key: str
    kept: str
    blanks: str
    at: datetime | None = None


class Leaf(NamedTuple):
    """One row as a seal keeps it; `digest` is empty for tables of which an erasure empties no column."""

    key: str
    content: bytes
    salt: bytes
    digest: bytes = b""


def rows_read(table: SealedTable, keys: Sequence[str]) -> dict[str, Row]:
    """The rows with these keys, as they are now."""
    type_of_key, form = ("bigint", NUMBER) if table.numbered else ("uuid", UUID)
    columns = [column for column in table.columns if column.attname != "id"]
    names = {column.attname: f"c{place}" for place, column in enumerate(columns)}
    texts = ", ".join(f"{_text(column)} AS {names[column.attname]}" for column in columns)
    kept = _encoded(name for column, name in names.items() if column not in table.blanks)
    blanks = _encoded(name for column, name in names.items() if column in table.blanks)
    at = f"t.{_name(table.clock_column)}" if table.clock_column else "NULL::timestamptz"
    return {
        row[0]: Row(*row)
        for row in sql_rows(
            # The offset keeps the texts from being made twice.
            f"SELECT key, {kept}, {blanks}, at FROM (SELECT t.id::text AS key, {at} AS at, {texts}"  # noqa: S608
            f" FROM {table.table} t WHERE t.id = ANY(%s::{type_of_key}[]) AND {table.condition} OFFSET 0) read",
            [[key for key in keys if form.fullmatch(key)]],
        )
    }


def leaf_of(table: SealedTable, row: Row, salt: bytes) -> Leaf:
    """The leaf of a row with this salt."""
    digest = hashlib.sha256(salt + row.blanks.encode()).digest()
    return Leaf(row.key, content_hash(table, row, digest), salt, digest if table.blanks else b"")


def content_hash(table: SealedTable, row: Row, digest: bytes) -> bytes:
    """The hash of a row of which the columns that an erasure may empty are known by their digest alone."""
    return hashlib.sha256(_head(table.name) + encode((row.key,)) + row.kept.encode() + digest).digest()


def is_blank(row: Row) -> bool:
    """Whether the columns that an erasure may empty are empty."""
    return EMPTY.fullmatch(row.blanks) is not None


def node_of(key: str, content: bytes) -> bytes:
    """The leaf of the tree of a seal: a row's key and the hash of its content."""
    return leaf_hash(encode((key,)) + content)


@cache
def _head(name: str) -> bytes:
    return encode((str(FORMAT), name))


def _name(column: str) -> str:
    return connection.ops.quote_name(column)


def _encoded(names: Any) -> str:
    """SQL for the encoding of columns that are texts."""
    return " || ".join(f"coalesce(octet_length({name}) || ':' || {name}, '-')" for name in names) or "''"


def _text(column: "models.Field[Any, Any]") -> str:
    """SQL for the text of a column, which must say all of it and always the same."""
    name = f"t.{_name(column.column or '')}"
    if isinstance(column, models.DateTimeField):
        return f"extract(epoch FROM {name})::text"
    if isinstance(column, models.FloatField):
        return f"encode(float8send({name}), 'hex')"
    return f"{name}::text"


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
    statement = form.format(
        table=table.table,
        agent=table.agent,
        persona=table.persona,
        join=table.join,
        counters=table.counters._meta.db_table if table.counters else "",
    )
    return [Pending(*row) for row in sql_rows(statement, {"kind": table.name, "floor": floor, "limit": limit})]


def horizon_move(table: SealedTable) -> tuple[LogHorizon, int | None]:
    """The horizon of a table, and the key up to which all rows are now there or never will be, where that is known.

    To be called before the pending rows are read. The highest key is noted first, later the number of the next
    transaction, and when all before that one have ended it is known.
    """
    horizon, _ = LogHorizon.objects.get_or_create(kind=table.name)
    if not table.numbered or table.by_chain:
        return horizon, None
    oldest, following, highest = sql_row(
        "SELECT pg_snapshot_xmin(now.snapshot)::text::bigint, pg_snapshot_xmax(now.snapshot)::text::bigint,"  # noqa: S608
        f" (SELECT coalesce(max(id), 0) FROM {table.table}) FROM pg_current_snapshot() now(snapshot)"
    )
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
    return bool(
        sql_row(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND xact_start < %s)",
            [noted_at],
        )[0]
    )


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


LOCK = "nous.log"
"""Advisory lock of a transaction: the sealer has it for itself, erasures share it (`HOLES` in
memory/migrations/0001_initial.py)."""
HASHED = (
    "format", "serial", "kind", "agent_id", "agent_slug", "persona", "number", "first", "count", "floor", "since",
    "sealed_at", "root", "chain_previous", "previous",
)  # fmt: skip
"""Columns of a seal that its hash is over, as JSON with sorted names and no spaces."""

Chain = tuple[int | None, str]
"""The agent and the persona."""


def log_seal(*, at_once: bool = False) -> int:
    """Seal the committed rows that have no seal yet; returns how many rows.

    A chain with few rows and a young seal waits, unless `at_once`. Ends after ROUND_SECONDS; the next round continues.
    """
    total, end = 0, time.monotonic() + ROUND_SECONDS
    for table in SEALED_TABLES.values():
        more = True
        while more and time.monotonic() < end:
            with transaction.atomic():
                sealed, more = _step(table, at_once)
            total += sealed
    return total


def seal_values(seal: LogSeal) -> dict[str, Any]:
    """The hashed values of a seal, ready for JSON."""
    values = {name: getattr(seal, name) for name in HASHED}
    return {name: moment_text(value) if isinstance(value, datetime) else value for name, value in values.items()}


def moment_text(moment: datetime) -> str:
    """A moment in UTC with its microseconds, as seals spell it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def values_hash(values: dict[str, Any]) -> str:
    """SHA-256 of these as JSON with sorted names and no spaces, in hexadecimal."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _step(table: SealedTable, at_once: bool) -> tuple[int, bool]:
    """One transaction of a round: rows sealed, and whether there may be more to seal now."""
    sql_change("SELECT pg_advisory_xact_lock(hashtext(%s))", [LOCK])
    begun = clock.now()
    horizon, known = horizon_move(table)
    rows = pending_rows(table, horizon.floor, SELECT_ROWS)
    full = len(rows) == SELECT_ROWS
    chains: dict[Chain, list[str]] = defaultdict(list)
    for row in rows:
        chains[row.agent_id, row.persona].append(row.key)
    heads = _heads(table, chains)
    slugs = dict(Agent.objects.filter(pk__in=[agent for agent, _ in chains if agent]).values_list("pk", "slug"))
    sealed, more, left = 0, False, []
    for chain, keys in chains.items():
        head = heads.get(chain)
        due = at_once or full or head is None or len(keys) >= SEAL_ROWS or begun - head.sealed_at >= SEAL_EVERY
        taken = keys[: min(SEAL_ROWS, TRANSACTION_ROWS - sealed)] if due else []
        if taken:
            _seal(table, chain, slugs.get(chain[0] or 0, head.agent_slug if head else ""), taken, head, horizon)
        sealed += len(taken)
        left += keys[len(taken) :]
        more = more or (due and (len(taken) < len(keys) or (table.by_chain and len(keys) >= SEAL_ROWS)))
    more = more or (full and sealed > 0)
    oldest_left = min(map(int, left), default=None) if table.numbered else None
    if full and table.numbered:
        # Rows that were not read wait too.
        beyond = max(int(row.key) for row in rows) + 1
        oldest_left = min(oldest_left or beyond, beyond)
    horizon_settle(horizon, known, oldest_left, done_at=None if more else begun)
    return sealed, more


def _seal(
    table: SealedTable, chain: Chain, slug: str, keys: Sequence[str], head: LogSeal | None, horizon: LogHorizon
) -> None:
    """Write one seal with its leaves."""
    rows = rows_read(table, keys)
    salts = os.urandom(SALT * len(keys))
    leaves = [leaf_of(table, rows[key], salts[at * SALT : (at + 1) * SALT]) for at, key in enumerate(keys)]
    last = LogSeal.objects.order_by("-serial").only("serial", "hash").first()
    numbers = [int(key) for key in keys] if table.numbered else []
    seal = LogSeal(
        serial=last.serial + 1 if last else 1,
        format=FORMAT,
        kind=table.name,
        agent_id=chain[0],
        agent_slug=slug,
        persona=chain[1],
        number=head.number + 1 if head else 1,
        first=head.first + head.count if head else 1,
        count=len(leaves),
        floor=(numbers[-1] if table.by_chain else horizon.floor) if table.numbered else None,
        since=horizon.done_at,
        sealed_at=clock.now(),
        root=tree_root([node_of(leaf.key, leaf.content) for leaf in leaves]).hex(),
        chain_previous=head.hash if head else "",
        previous=last.hash if last else "",
    )
    seal.hash = values_hash(seal_values(seal))
    seal.save(force_insert=True)
    LogLeaves.objects.create(
        seal=seal,
        kind=table.name,
        first_key=min(numbers, default=None),
        last_key=max(numbers, default=None),
        keys=list(keys),
        contents=b"".join(leaf.content for leaf in leaves),
        salts=salts,
        digests=b"".join(leaf.digest for leaf in leaves) if table.blanks else None,
    )


def _heads(table: SealedTable, chains: Iterable[Chain]) -> dict[Chain, LogSeal]:
    """The last seal of each of these chains that has one."""
    seals = LogSeal.objects.filter(kind=table.name).order_by("-number")
    last = (seals.filter(agent_id=agent_id, persona=persona).first() for agent_id, persona in chains)
    return {(seal.agent_id, seal.persona): seal for seal in last if seal is not None}
