"""Short texts that are asked for at the same time, embedded in one run of a model.

A run takes most of its time to go through the model's weights, whatever the number of texts: eight at once take half as
long as one after the other.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory.embedding.protocol import Vectors


@dataclass(eq=False, slots=True)
class _Text:
    text: str
    vector: Vectors | None = None
    error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.vector is not None or self.error is not None


class QueryBatches:
    """Runs `embed` for the texts of many threads, at most `runs` times at once, for at most `most` texts each.

    A text is embedded at once while fewer runs go on; else it waits with others for the next run that ends.
    """

    def __init__(self, embed: Callable[[Sequence[str]], Vectors], *, runs: int, most: int) -> None:
        self._embed = embed
        self._free = runs
        self._most = most
        self._waiting: list[_Text] = []
        self._turn = threading.Condition()

    def vector_of(self, text: str) -> Vectors:
        """The vector of one text. Raises what `embed` raises."""
        mine = _Text(text)
        with self._turn:
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
