"""Timeouts of statements and locks, by the kind of work."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class TimeLimits:
    """In seconds; 0 is no limit. `idle` is how long a transaction may be open without a statement."""

    statement: float
    lock: float
    idle: float

    @property
    def settings(self) -> dict[str, str]:
        """The settings of PostgreSQL, in milliseconds."""
        return {
            "statement_timeout": str(int(self.statement * 1000)),
            "lock_timeout": str(int(self.lock * 1000)),
            "idle_in_transaction_session_timeout": str(int(self.idle * 1000)),
        }


LIMITS = {
    "api_read": TimeLimits(statement=10, lock=2, idle=60),
    "api_write": TimeLimits(statement=30, lock=3, idle=90),
    "page": TimeLimits(statement=15, lock=2, idle=60),
    "form": TimeLimits(statement=60, lock=3, idle=90),
    "probe": TimeLimits(statement=3, lock=1, idle=10),
    # The queue ends a task after 120 s.
    "job": TimeLimits(statement=110, lock=20, idle=150),
    # The user of a command, such as a migration, watches it; but waiting for a lock delays others.
    "command": TimeLimits(statement=0, lock=60, idle=0),
}
"""Lower than the timeouts of gunicorn, the queue or a proxy, so that the caller gets the reason."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})
PROBES = ("/readyz", "/metrics")

_at_hand: ContextVar[str] = ContextVar("work")
_usual = "command"


def work_usual(kind: str) -> None:
    """Declare the default kind of work of this process and of the processes that it forks."""
    global _usual
    _usual = kind


def work_at_hand() -> str:
    """The kind of work that this thread does."""
    return _at_hand.get(_usual)


@contextmanager
def work(kind: str) -> Iterator[None]:
    """Connections of the block get the limits of `kind`."""
    token = _at_hand.set(kind)
    try:
        yield
    finally:
        _at_hand.reset(token)


def work_of(method: str, path: str) -> str:
    """The kind of work that a request is."""
    reads = method in READING
    if path.startswith(PROBES):
        return "probe"
    if path == "/mcp" or path.startswith("/api/"):
        return "api_read" if reads else "api_write"
    return "page" if reads else "form"
