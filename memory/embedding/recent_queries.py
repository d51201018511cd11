"""Cache of the vectors of recent queries. A query comes again when a call is repeated, when a turn recalls memories
with the query of its context, and when expectations are checked.

A vector depends on the model and the text only, so processes cannot have different ones. Each persona of an agent has
its own entries, so that response times do not reveal the queries of another one.
"""

import hashlib
import threading
import time
from collections import OrderedDict

from memory.embedding.protocol import Vectors

Asker = tuple[int, str]
"""The id of an agent, and a persona."""


class RecentQueries:
    """A cache of at most `max_size` vectors, each for `seconds`, separate for each asker. Thread-safe.

    Keys are digests; texts are not stored."""

    def __init__(self, *, max_size: int, seconds: float) -> None:
        self._max_size = max_size
        self._seconds = seconds
        # In the order of insertion, with the time by the monotonic clock.
        self._kept: OrderedDict[bytes, tuple[float, Vectors]] = OrderedDict()
        self._turn = threading.Lock()

    def vector_of(self, asker: Asker, model: str, text: str) -> Vectors | None:
        """The cached vector of a text by this model, else None."""
        with self._turn:
            at, vector = self._kept.get(_digest(asker, model, text), (0.0, None))
        return vector if at > time.monotonic() - self._seconds else None

    def keep(self, asker: Asker, model: str, text: str, vector: Vectors) -> None:
        """Add a vector, and remove expired ones and those over `max_size`."""
        key, now = _digest(asker, model, text), time.monotonic()
        with self._turn:
            self._kept.pop(key, None)
            while self._kept and (len(self._kept) >= self._max_size or self._first() <= now - self._seconds):
                self._kept.popitem(last=False)
            self._kept[key] = now, vector

    def _first(self) -> float:
        """The time at which the oldest entry was added."""
        return next(iter(self._kept.values()))[0]


def _digest(asker: Asker, model: str, text: str) -> bytes:
    return hashlib.sha256(repr((asker, model, text)).encode()).digest()
