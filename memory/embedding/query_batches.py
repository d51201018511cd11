"""Short texts that are asked for at the same time, embedded in one run of a model.

A run takes most of its time to go through the model's weights, whatever the number of texts: eight at once take half as
long as one after the other.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from memory.embedding.protocol import Vectors


@dataclass(eq=False, slots=True, weakref_slot=True)
class QueryText:
    """A text with its vector, as soon as there is one, or with what went wrong."""

    text: str
    vector: Vectors | None = None
    error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.vector is not None or self.error is not None


class QueryBatches:
    """Runs `embed` for the texts of many threads, at most `runs` times at once, for at most `most` texts each.

    A text is embedded at once while fewer runs go on; else it waits with others for the next run that ends. One that is
    only announced waits until it is asked for, or takes part in a run before that.
    """

    def __init__(self, embed: Callable[[Sequence[str]], Vectors], *, runs: int, most: int) -> None:
        self._embed = embed
        self._free = runs
        self._most = most
        self._waiting: list[QueryText] = []
        self._announced: WeakValueDictionary[str, QueryText] = WeakValueDictionary()
        self._turn = threading.Condition()

    def announce(self, text: str) -> QueryText:
        """Let a text take part in the next run, while who will ask for it keeps what is returned."""
        with self._turn:
            asked = self._announced.get(text)
            if asked is None:
                asked = self._announced[text] = QueryText(text)
                self._waiting.append(asked)
        return asked

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
        """Embed those that wait, the first of them. Called with the lock, which others have meanwhile."""
        batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
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
