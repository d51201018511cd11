"""The moments at which the figures of Home and Usage are told."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from nousweb.lib import clock

NOON = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
"""A Tuesday. All that is told here ends there."""
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def ago(days: float = 0, hours: float = 0) -> datetime:
    return NOON - timedelta(days=days, hours=hours)


@contextmanager
def noon() -> Iterator[None]:
    with clock.at(NOON):
        yield
