"""Seal the rows that were committed since the last round. The worker runs it; no writer waits for it."""

import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction

from identity.models import Agent, LogHorizon, LogLeaves, LogSeal
from identity.policy.seal_limits import ROUND_SECONDS, SEAL_EVERY, SEAL_ROWS, SELECT_ROWS, TRANSACTION_ROWS
from identity.policy.sealed_tables import FORMAT, SEALED_TABLES, SealedTable
from identity.services.seals.pending_rows import horizon_move, horizon_settle, pending_rows
from identity.services.seals.row_hashes import SALT, leaf_of, node_of, rows_read
from nousweb.lib import clock
from nousweb.lib.merkle_tree import tree_root

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


@dataclass(frozen=True, slots=True)
class Head:
    """The last seal of a chain."""

    number: int
    after: int
    hash: str
    sealed_at: datetime
    slug: str


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
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [LOCK])
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
            _seal(table, chain, slugs.get(chain[0] or 0, head.slug if head else ""), taken, head, horizon)
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
    table: SealedTable, chain: Chain, slug: str, keys: Sequence[str], head: Head | None, horizon: LogHorizon
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
        first=head.after if head else 1,
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


def _heads(table: SealedTable, chains: Iterable[Chain]) -> dict[Chain, Head]:
    """The last seal of each of these chains that has one."""
    found: dict[Chain, Head] = {}
    for agent_id, persona in chains:
        chain = LogSeal.objects.filter(kind=table.name, agent_id=agent_id, persona=persona)
        last = chain.order_by("-number").first()
        if last is not None:
            found[agent_id, persona] = Head(
                last.number, last.first + last.count, last.hash, last.sealed_at, last.agent_slug
            )
    return found
