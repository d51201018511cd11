"""Readers that wait for the next change of a feed: at most so many of a caller, and of this process."""

import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from threading import Lock

from django.conf import settings
from django.db import connection

from identity.models import Agent
from identity.policy.changes import POLL_SECONDS, RETRY_WAIT_SECONDS
from identity.principal import Principal
from identity.services.change_feed import (
    ChangePage,
    StreamPositions,
    changes_read,
    stream_publish,
    streams_of,
)
from nousweb.lib import TooMany
from nousweb.lib.shutdown import stopping

_lock = Lock()
_waiting: Counter[tuple[str, str]] = Counter()


def changes_await(
    *,
    agent: Agent,
    by: Principal,
    after: StreamPositions,
    kinds: Collection[str],
    limit: int,
    newest: bool = False,
    seconds: float = 0,
) -> ChangePage:
    """The next changes for `by`, waiting up to `seconds` for the first one.

    A reader publishes its own persona's stream, so that it finds everything committed before its request. The other
    persona's stream is published by its other readers, at the latest by the worker: no lock delays the actor. Raises
    TooMany if there is no change and too many readers of this caller, or of this process, are waiting.
    """
    streams = streams_of(by)

    def read(positions: StreamPositions, newest: bool) -> ChangePage:
        for persona in streams:
            if by.token is None or persona == by.persona:
                stream_publish(agent.pk, persona)
        return changes_read(agent=agent, streams=streams, after=positions, kinds=kinds, limit=limit, newest=newest)

    page = read(after, newest)
    if page.changes or not seconds or connection.in_atomic_block:
        return page
    deadline = time.monotonic() + seconds
    with _position(by):
        while not page.changes and (left := deadline - time.monotonic()) > 0:
            if stopping.wait(min(POLL_SECONDS, left)):
                break
            page = read(page.positions, False)
    return page


@contextmanager
def _position(by: Principal) -> Iterator[None]:
    """One of the places for readers that wait: a thread of the web server each."""
    caller = (by.kind, by.id)
    most = settings.CHANGE_WAITERS
    with _lock:
        if _waiting.total() >= most or _waiting[caller] >= max(1, most // 2):
            raise TooMany(
                "Too many readers are waiting for changes. Ask without wait, or retry in a moment.",
                retry_after=RETRY_WAIT_SECONDS,
            )
        _waiting[caller] += 1
    try:
        yield
    finally:
        with _lock:
            _waiting[caller] -= 1
            if not _waiting[caller]:
                del _waiting[caller]
