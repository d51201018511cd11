"""Embed a query in a thread while the caller continues with database statements.

The name of the current model is in the database and is known only later, so the model of the last search is used. If
more searches are running than this process has cores for the model, starting early has no advantage: the queries are
collected instead and embedded in one run.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from weakref import WeakSet

from memory.embedding.local import RUNS
from memory.embedding.protocol import Vectors
from memory.embedding.registry import embedder_named, query_announce
from nousweb.lib.bounds import MAX_QUERY_CHARACTERS
from nousweb.lib.tracing import carried

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
            while self._kept and (
                len(self._kept) >= self._max_size or next(iter(self._kept.values()))[0] <= now - self._seconds
            ):
                self._kept.popitem(last=False)
            self._kept[key] = now, vector


def _digest(asker: Asker, model: str, text: str) -> bytes:
    return hashlib.sha256(repr((asker, model, text)).encode()).digest()


THREADS = 16
"""Queries that are embedded at once; local models limit their own use of the cores."""
KEPT_QUERIES = 500
KEPT_SECONDS = 60.0
"""How long the process that embedded a query caches its vector."""

_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="embed")
_last_model = ""
_under_way: "WeakSet[PrefetchedEmbedding]" = WeakSet()
"""The running searches of this process; an object is removed when its search releases it."""
_recent = RecentQueries(max_size=KEPT_QUERIES, seconds=KEPT_SECONDS)


class PrefetchedEmbedding:
    """The vector of one query. If a model is known, its computation begins when the object is created.

    `text` is the part of the query that is embedded. Vectors of queries by `asker` are cached for KEPT_SECONDS.
    """

    def __init__(self, query: str, asker: Asker) -> None:
        text = query[:MAX_QUERY_CHARACTERS].strip()
        self.text = text
        self._asker = asker
        self._model = _last_model if text else ""
        self._future: Future[Vectors] | None = None
        _under_way.add(self)
        if not self._model or _recent.vector_of(asker, self._model, text) is not None:
            return
        self._announced = query_announce(self._model, text) if len(_under_way) > RUNS else None
        if self._announced is None:
            self._future = _pool.submit(carried(_embed), asker, self._model, text)

    def of_model(self, name: str) -> Vectors:
        """The vector by the model with this name; waits for it. Raises EmbeddingFailed and EmbeddingUnavailable."""
        global _last_model
        if self._future is not None and self._model == name:
            return self._future.result()
        _last_model = name
        return _embed(self._asker, name, self.text)


def _embed(asker: Asker, model: str, text: str) -> Vectors:
    vector = _recent.vector_of(asker, model, text)
    if vector is None:
        vector = embedder_named(model).embed_query(text)
        _recent.keep(asker, model, text, vector)
    return vector
