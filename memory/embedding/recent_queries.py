"""The vectors of questions that were just asked: one comes again when a call is repeated, when a turn looks up what its
context asked for, and whenever expectations are checked.

A vector follows from the model and the text alone, so that two processes cannot disagree about it. What one persona of
an agent asked makes no answer to another quicker, who could tell from that what was asked.
"""

import hashlib
import threading
import time
from collections import OrderedDict

from memory.embedding.protocol import Vectors

Asker = tuple[int, str]
"""An agent's id, and a persona."""


class RecentQueries:
    """The vectors of at most so many questions, for so many seconds, to whoever asked them. Texts are not kept: each is
    known by a digest."""

    def __init__(self, *, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        # In the order in which they were kept, with the moment by the monotonic clock.
        self._kept: OrderedDict[bytes, tuple[float, Vectors]] = OrderedDict()
        self._turn = threading.Lock()

    def vector_of(self, asker: Asker, model: str, text: str) -> Vectors | None:
        """The vector of a text by the model of this name; None for one that was not asked of late."""
        with self._turn:
            at, vector = self._kept.get(_digest(asker, model, text), (0.0, None))
        return vector if at > time.monotonic() - self._seconds else None

    def keep(self, asker: Asker, model: str, text: str, vector: Vectors) -> None:
        """Know a vector from now on, and let go of those whose time is over."""
        key, now = _digest(asker, model, text), time.monotonic()
        with self._turn:
            self._kept.pop(key, None)
            while self._kept and (len(self._kept) >= self._most or self._first() <= now - self._seconds):
                self._kept.popitem(last=False)
            self._kept[key] = now, vector

    def _first(self) -> float:
        """When the oldest was kept."""
        return next(iter(self._kept.values()))[0]


def _digest(asker: Asker, model: str, text: str) -> bytes:
    return hashlib.sha256(repr((asker, model, text)).encode()).digest()
