"""Embedder for the models of the optional package fastembed, which downloads a model at first use."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from django.conf import settings

from memory.embedding.protocol import EmbeddingRefused, EmbeddingUnavailable, Vectors, normalised


class FastEmbedder:
    """Loads at first use, once a process."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._loading = threading.Lock()
        self._loaded: Any = None
        self._dimension = 0

    @property
    def name(self) -> str:
        return f"fastembed:{self.model}"

    @property
    def dimension(self) -> int:
        if not self._dimension:
            self._dimension = len(self.embed_query("dimension"))
        return self._dimension

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
