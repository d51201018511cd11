"""The clock that gives records their time.

One clock for every service, so that an import can record a history with the moments at which it happened, and a test
can set any moment, without writing to rows directly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime

from django.utils import timezone

_frozen: ContextVar[datetime | None] = ContextVar("frozen", default=None)


def now() -> datetime:
    """The present time, or the time set by `at`; always with a time zone."""
    return _frozen.get() or timezone.now()


@contextmanager
def at(moment: datetime) -> Iterator[None]:
    """Let everything inside happen at `moment`. Raises ValueError for a naive moment or one to come."""
    if moment.tzinfo is None or moment > timezone.now():
        raise ValueError("Only an aware moment of the past can be set.")
    token = _frozen.set(moment)
    try:
        yield
    finally:
        _frozen.reset(token)
