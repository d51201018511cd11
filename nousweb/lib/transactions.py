"""Transactions that are tried again after a deadlock, advisory locks, and single statements in SQL."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.conf import settings
from django.db import OperationalError, connection
from psycopg.sql import Composable

ATTEMPTS = 6
LONGEST_PAUSE_SECONDS = 0.4
PASSING = {"40P01": "deadlock", "40001": "serialization failure"}
"""Errors (SQLSTATE) after which nothing was changed, and which another try does not meet again."""

T = TypeVar("T")
Parameters = Sequence[Any] | Mapping[str, Any] | None


def sql_rows(statement: str | Composable, parameters: Parameters = None) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall()


def sql_row(statement: str | Composable, parameters: Parameters = None) -> Any:
    """The first row of a statement; None if there is none."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()


def sql_change(statement: str | Composable, parameters: Parameters = None) -> int:
    """Run a statement; returns how many rows it changed."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.rowcount


def transaction_retried(work: Callable[[], T]) -> T:
    """Run `work`, a whole transaction, and retry it after a deadlock or a serialization failure; returns its result.

    Inside of another transaction it runs once, since the error has ended that one too. Raises the OperationalError of
    the last of ATTEMPTS tries, which leads to a 503.
    """
    if connection.in_atomic_block:
        return work()
    for attempt in range(1, ATTEMPTS):
        try:
            return work()
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) not in PASSING:
                raise
        # Not all at the same moment again.
        time.sleep(random.uniform(0, min(0.01 * 2**attempt, LONGEST_PAUSE_SECONDS)))  # noqa: S311
    return work()


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
