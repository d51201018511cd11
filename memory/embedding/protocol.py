"""The interface of embedding models, and their errors."""

from collections.abc import Sequence

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
