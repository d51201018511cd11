"""An embedder that records a span for each call, if traces are collected."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from memory.embedding.protocol import Embedder, Vectors
from nousweb.lib.tracing import Span, Value, span


class TracedEmbedder:
    """Another embedder with a span around each call, by the conventions for generative AI."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        return self._embedder.name

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
