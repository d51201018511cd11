"""Reads from a replica (DATABASE_REPLICA_URL) that has replayed enough: clients always read their own writes.

Each response to a change records the position of the primary's log: for the agent whose token wrote, or for everybody
if a person did. A read compares the records that concern it with the replica's position and age; if the replica is
behind, unreachable or promoted, the primary is read. The connection "default" is the replica's meanwhile, so that all
reads use it without any change. The caller is always looked up at the primary.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.http import HttpRequest

from nousweb.database.base import DatabaseWrapper

log = structlog.get_logger(__name__)
PEOPLE = "people"
"""The record of writes by people, which concerns everybody."""

_NOTE = """
INSERT INTO identity_writemark (key, position)
VALUES (%s, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint)
ON CONFLICT (key) DO UPDATE SET position = excluded.position
"""
_WANTED = """
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, coalesce(max(position), 0)
FROM identity_writemark WHERE key = ANY(%s)
"""
_REACHED = """
SELECT pg_is_in_recovery(), coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint, 0),
    coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8, 1e9)
"""


class _Thread(threading.local):
    """State of this thread: its connection to the replica, that to the primary while the other is used, and whether the
    present work may read from the replica."""

    replica: DatabaseWrapper | None = None
    primary: Any = None
    allowed: bool = False


_thread = _Thread()


def agent_key(agent_id: int) -> str:
    """The key of the record of writes by an agent's tokens."""
    return f"agent:{agent_id}"


def write_note(key: str) -> None:
    """Record that something was written and committed, before the response is sent."""
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute(_NOTE, [key])


@contextmanager
def replica_allowed() -> Iterator[None]:
    """Let reads of the block go to the replica once `replica_take` finds it far enough."""
    _thread.allowed = True
    try:
        yield
    finally:
        _thread.allowed = False
        if _thread.primary is not None:
            connections[DEFAULT_DB_ALIAS], _thread.primary = _thread.primary, None


def replica_take(keys: Sequence[str]) -> None:
    """Read from the replica from here on, where that is allowed and it has all that was noted for `keys`."""
    if not _thread.allowed or _thread.primary is not None:
        return
    primary: Any = connections[DEFAULT_DB_ALIAS]
    with primary.cursor() as cursor:
        cursor.execute(_WANTED, [list(keys)])
        present, wanted = cursor.fetchone()
    if (found := _reached()) is None:
        return
    recovering, reached, age = found
    # A note of another cluster, which was restored, may lie beyond the log of this one.
    enough = reached >= min(wanted, present) and (reached >= present or age <= settings.REPLICA_SECONDS)
    if recovering and enough and _thread.replica is not None:
        _thread.primary, connections[DEFAULT_DB_ALIAS] = primary, _thread.replica


def replica_used() -> bool:
    """Whether the work at hand reads from the replica."""
    return _thread.primary is not None


def _reached() -> tuple[bool, int, float] | None:
    if _thread.replica is None:
        known = deepcopy(connections[DEFAULT_DB_ALIAS].settings_dict)
        named: dict[str, Any] = settings.DATABASE_REPLICA or {}
        known |= {name: named.get(name, "") for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}
        known["OPTIONS"] |= named.get("OPTIONS", {})
        _thread.replica = DatabaseWrapper(known, DEFAULT_DB_ALIAS)
    try:
        _thread.replica.close_if_unusable_or_obsolete()
        with _thread.replica.cursor() as cursor:
            cursor.execute(_REACHED)
            row: tuple[bool, int, float] = cursor.fetchone()
            return row
    except Error as error:
        log.warning("replica_away", error=type(error).__name__)
        _thread.replica.close()
        return None


def token_reads(request: HttpRequest, agent_id: int) -> None:
    """Let a token's read go on at the replica: its agent's, once the token was looked up at the primary."""
    if request.method in ("GET", "HEAD"):
        replica_take([agent_key(agent_id), PEOPLE])
