"""Embed a query in a thread while the caller continues with database statements.

The name of the current model is in the database and is known only later, so the model of the last search is used. If
more searches are running than this process has cores for the model, starting early has no advantage: the queries are
collected instead and embedded in one run.
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
