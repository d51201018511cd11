"""Advisory locks of PostgreSQL, for work that only one process may do at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection


@contextmanager
def advisory_lock(name: str) -> Iterator[bool]:
    """Try to take the advisory lock `name` for the block; yields False at once if another process holds it.

    Do not use it in a transaction. The lock belongs to the connection. Behind a pooler that shares connections between
    transactions it belongs to a transaction on a separate connection.
    """
    with _of_connection(name) if settings.DB_PREPARE else _of_transaction(name) as acquired:
        yield acquired


def transaction_lock(name: str) -> None:
    """Wait for the advisory lock `name`, which is held until the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


@contextmanager
def _of_connection(name: str) -> Iterator[bool]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtext(%s))", [name])
        acquired = bool(cursor.fetchone()[0])
        try:
            yield acquired
        finally:
            if acquired:
                cursor.execute("SELECT pg_advisory_unlock(hashtext(%s))", [name])


@contextmanager
def _of_transaction(name: str) -> Iterator[bool]:
    separate = connection.copy()
    try:
        separate.set_autocommit(False)
        with separate.cursor() as cursor:
            # The transaction is idle during the block.
            cursor.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', '0', true),"
                " pg_try_advisory_xact_lock(hashtext(%s))",
                [name],
            )
            yield bool(cursor.fetchone()[1])
    finally:
        separate.close()
