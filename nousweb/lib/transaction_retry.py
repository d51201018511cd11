"""Retry a transaction that the database aborted because of another one."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import OperationalError, connection

ATTEMPTS = 6
LONGEST_PAUSE_SECONDS = 0.4
PASSING = {"40P01": "deadlock", "40001": "serialization failure"}
"""Errors (SQLSTATE) after which nothing was changed, and which another try does not meet again."""

T = TypeVar("T")


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
