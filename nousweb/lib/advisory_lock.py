"""Work that one process at a time does, by an advisory lock of PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection


@contextmanager
def advisory_lock(name: str) -> Iterator[bool]:
    """Whether this process has the turn at the work called `name`, until the end of the block. Nobody waits for it.

    Outside of any transaction. The lock is the connection's own. Behind a pooler that shares connections between
    transactions it is that of a transaction, on a connection of its own.
    """
    with _of_connection(name) if settings.DB_PREPARE else _of_transaction(name) as mine:
        yield mine


@contextmanager
def _of_connection(name: str) -> Iterator[bool]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtext(%s))", [name])
        mine = bool(cursor.fetchone()[0])
        try:
            yield mine
        finally:
            if mine:
                cursor.execute("SELECT pg_advisory_unlock(hashtext(%s))", [name])


@contextmanager
def _of_transaction(name: str) -> Iterator[bool]:
    beside = connection.copy()
    try:
        beside.set_autocommit(False)
        with beside.cursor() as cursor:
            # It waits while the work goes on.
            cursor.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', '0', true),"
                " pg_try_advisory_xact_lock(hashtext(%s))",
                [name],
            )
            yield bool(cursor.fetchone()[1])
    finally:
        beside.close()
