"""Embedding a query while its asker goes on: a model computes outside of Python's lock, a database waits.

Which model will be asked for stands in the database, and is known only later: the last one is the best guess. Where
more searches are under way than this process has cores for the model, nothing is won by being early: queries wait for
each other instead, and one run embeds them all.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from weakref import WeakSet

from memory.embedding.local import RUNS
from memory.embedding.protocol import Vectors
from memory.embedding.recent_queries import Asker, RecentQueries
from memory.embedding.registry import embedder_named, query_announce
from nousweb.lib.constrained_types import MAX_QUERY_CHARACTERS
from nousweb.lib.tracing import carried

THREADS = 16
"""As many queries are embedded at once as a web process answers; local models take turns on its cores by themselves."""
KEPT_QUERIES = 500
KEPT_SECONDS = 60.0
"""How long the vector of a question is known to the process that embedded it."""

_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="embed")
_last_model = ""
_under_way: "WeakSet[EmbeddingAhead]" = WeakSet()
"""The searches of this process that have begun and are not over, as far as each lets go of its own."""
_recent = RecentQueries(most=KEPT_QUERIES, seconds=KEPT_SECONDS)


class EmbeddingAhead:
    """The vector of one query, on its way since this was made when it is known by which model.

    `text` is what is read of the query. What `asker` asked within the last minute is known.
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
        """The vector by the model called `name`. Raises EmbeddingFailed and EmbeddingUnavailable."""
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
