"""Vectors of texts that are compared again in each turn: messages, summaries of loops, memories."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from memory.embedding import embedder_named
from memory.embedding.protocol import Vectors


def text_vectors(model: str, texts: Sequence[str]) -> Vectors:
    """The vectors of texts by an embedding model, a row each; those that are not cached are computed at once.

    Raises EmbeddingFailed.
    """
    cells = [vector_cell(model, text) for text in texts]
    missing = {text: cell for text, cell in zip(texts, cells, strict=True) if not cell}
    if missing:
        vectors = embedder_named(model).embed_documents([*missing])
        for cell, vector in zip(missing.values(), vectors, strict=True):
            cell.append(vector)
    return np.stack([cell[0] for cell in cells])


@lru_cache(maxsize=4_096)
def vector_cell(model: str, text: str) -> list[Vectors]:
    """Holds the vector of a text once it is computed."""
    return []
