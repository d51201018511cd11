"""The interface of embedding models, their errors, and their thresholds of cosines."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class EmbeddingFailed(Exception):
    """A text could not be embedded; the message is one sentence without secrets or quoted text."""


class EmbeddingUnavailable(EmbeddingFailed):
    """The model cannot be reached or loaded now: the same text may succeed later."""


class EmbeddingRefused(EmbeddingFailed):
    """The model answered, and refuses this input or this configuration."""


class Embedder:
    """Makes vectors of length 1, so that their inner product is their cosine. Safe to call from many threads.

    `name`: `<embedder>:<model>`, which the index keeps beside every vector.
    """

    name: str
    _dimension: int = 0

    @property
    def dimension(self) -> int:
        """Length of a vector. May load the model; raises EmbeddingFailed when that fails."""
        if not self._dimension:
            self._dimension = len(self.embed_query("dimension"))
        return self._dimension

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of texts to be found, shape (len(texts), dimension). Raises EmbeddingFailed."""
        raise NotImplementedError

    def embed_query(self, text: str) -> Vectors:
        """Vector of a question, shape (dimension,). Raises EmbeddingFailed."""
        raise NotImplementedError


def normalised(vectors: Vectors) -> Vectors:
    """`vectors` scaled to length 1 by row. Raises EmbeddingRefused for one without a direction."""
    vectors = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(vectors).all() or (lengths == 0).any():
        raise EmbeddingRefused("The model gave a vector that is not finite or has no direction.")
    return vectors / lengths


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Cosines of one model.

    From `check` on two facts are taken to be about the same (seed 009.1); no cosine proves that they say the same.
    `unrelated` and `related` are the typical best cosine of a question that the memory knows nothing about, and of one
    that it can answer: the search maps them to those of the model that its recipe was fitted with. `relevance` is the
    fused score, not a cosine, from which a search result counts.
    """

    check: float
    unrelated: float
    related: float
    relevance: float = 0.25


DEFAULT_MODEL = "local:all-MiniLM-L6-v2-int8"

THRESHOLDS: dict[str, Thresholds] = {
    DEFAULT_MODEL: Thresholds(check=0.80, unrelated=0.30, related=0.55),
    "multilingual:multilingual-e5-small-q4": Thresholds(check=0.92, unrelated=0.789, related=0.857),
    "fastembed:sentence-transformers/all-MiniLM-L6-v2": Thresholds(check=0.80, unrelated=0.30, related=0.55),
    "fastembed:BAAI/bge-small-en-v1.5": Thresholds(check=0.90, unrelated=0.58, related=0.75),
    "fastembed:BAAI/bge-base-en-v1.5": Thresholds(check=0.90, unrelated=0.55, related=0.74),
    "openai:text-embedding-3-small": Thresholds(check=0.80, unrelated=0.25, related=0.50),
    "openai:text-embedding-3-large": Thresholds(check=0.80, unrelated=0.25, related=0.50),
    "openai:text-embedding-ada-002": Thresholds(check=0.94, unrelated=0.75, related=0.85),
}
"""The first two are fitted (docs/search.md); the others are estimates to start from."""

UNKNOWN = Thresholds(check=0.85, unrelated=0.30, related=0.55)
"""For a model that nobody has measured here: the bounds of seed 009.1."""


def thresholds_of(name: str) -> Thresholds:
    """Thresholds of the model called `name`."""
    return THRESHOLDS.get(name, UNKNOWN)
