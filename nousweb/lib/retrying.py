"""Trying a transaction again that the database ended because of another one."""

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
    """What `work` returns, a whole transaction, tried again after a deadlock or a serialization failure.

    Inside of another transaction it is tried once, since that one has ended with it. Raises the OperationalError of the
    last of ATTEMPTS tries, which is answered as 503.
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
