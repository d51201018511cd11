"""Embed short texts of several threads in one run of a model.

Most of the time of a run is spent on reading the model's weights, whatever the number of texts: eight texts in one run
take half as long as one after the other.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from memory.embedding.protocol import Vectors


@dataclass(eq=False, slots=True, weakref_slot=True)
class QueryText:
    """A text with its vector, once it is computed, or with the error."""

    text: str
    vector: Vectors | None = None
    error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.vector is not None or self.error is not None


class QueryBatches:
    """Calls `embed` with the texts of many threads: at most `runs` calls at once, with at most `max_batch` texts each.

    A text is embedded at once if fewer calls are running; else it waits with others until a call ends. An announced
    text is embedded with the next call, or at the latest when it is requested.
    """

    def __init__(self, embed: Callable[[Sequence[str]], Vectors], *, runs: int, max_batch: int) -> None:
        self._embed = embed
        self._free = runs
        self._max_batch = max_batch
        self._waiting: list[QueryText] = []
        self._announced: WeakValueDictionary[str, QueryText] = WeakValueDictionary()
        self._turn = threading.Condition()

    def announce(self, text: str) -> QueryText:
        """Add a text to the next call, as long as the caller keeps the returned object."""
        with self._turn:
            query = self._announced.get(text)
            if query is None:
                query = self._announced[text] = QueryText(text)
                self._waiting.append(query)
        return query

    def vector_of(self, text: str) -> Vectors:
        """The vector of one text. Raises what `embed` raises."""
        with self._turn:
            mine = self._announced.get(text)
            if mine is None:
                mine = QueryText(text)
                self._waiting.append(mine)
            while not mine.done:
                if self._free and mine in self._waiting:
                    self._run()
                else:
                    self._turn.wait()
        if mine.vector is None:
            raise mine.error or RuntimeError("There is no vector.")
        return mine.vector

    def _run(self) -> None:
        """Embed the first waiting texts. Called with the lock held, which is released during the call."""
        batch, self._waiting = self._waiting[: self._max_batch], self._waiting[self._max_batch :]
        self._free -= 1
        self._turn.release()
        try:
            vectors = self._embed([one.text for one in batch])
            for one, vector in zip(batch, vectors, strict=True):
                one.vector = vector
        except Exception as error:
            for one in batch:
                one.error = error
        finally:
            self._turn.acquire()
            self._free += 1
            self._turn.notify_all()
