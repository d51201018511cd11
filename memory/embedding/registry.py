"""The embedders by name, each created once per process, with a span for each call if traces are collected."""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import cast

from django.conf import settings

from memory.embedding.local import MODEL as LOCAL_MODEL
from memory.embedding.local import LocalEmbedder, QueryText
from memory.embedding.openai import OpenAIEmbedder
from memory.embedding.optional_packages import MODEL as MULTILINGUAL_MODEL
from memory.embedding.optional_packages import FastEmbedder, MultilingualEmbedder
from memory.embedding.protocol import Embedder, EmbeddingUnavailable, Vectors
from nousweb.lib.tracing import Span, Value, span, traced


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
