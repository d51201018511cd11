"""Leases of work shared by several processes: held while renewed, retried with growing pauses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Thread

import structlog
from django.db import Error, connection

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeasePolicy:
    """Times of leases and retries.

    A worker renews its lease every `renew_every`; after `lease` without renewal, another worker may take the work over.
    After a failed attempt it waits for `backoff_initial`, then twice as long each time up to `backoff_max`; after
    `max_attempts` it is given up.
    """

    lease: timedelta
    renew_every: timedelta
    max_attempts: int
    backoff_initial: timedelta
    backoff_max: timedelta

    def backoff(self, attempts: int) -> timedelta:
        """The waiting time after the n-th failed attempt."""
        return min(self.backoff_initial * 2 ** min(attempts - 1, 20), self.backoff_max)

    @contextmanager
    def renewal(self, renew: Callable[[], object], *, name: str) -> Iterator[None]:
        """Call `renew` from time to time, in a thread of this `name`, until the block ends.

        An error of the database is logged: it may be back for the next time; if not, the lease ends.
        """
        done = Event()

        def renew_forever() -> None:
            try:
                while not done.wait(self.renew_every.total_seconds()):
                    try:
                        renew()
                    except Error as error:
                        log.warning("lease_not_renewed", lease=name, error=type(error).__name__)
                        connection.close()
            finally:
                connection.close()

        Thread(target=renew_forever, daemon=True, name=name).start()
        try:
            yield
        finally:
            done.set()
