"""Turning text into vectors: one protocol, an implementation for each place where a model can run."""

from memory.embedding.protocol import (
    Embedder,
    EmbeddingFailed,
    EmbeddingRefused,
    EmbeddingUnavailable,
    Thresholds,
    thresholds_of,
)
from memory.embedding.registry import embedder_named, full_name

__all__ = [
    "Embedder",
    "EmbeddingFailed",
    "EmbeddingRefused",
    "EmbeddingUnavailable",
    "Thresholds",
    "embedder_named",
    "full_name",
    "thresholds_of",
]
