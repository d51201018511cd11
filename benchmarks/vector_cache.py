"""Vectors of texts that were embedded before, in a file: the same benchmark again takes minutes instead of an hour."""

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from memory.embedding.protocol import Embedder, Vectors


class CachedEmbedder:
    """What `embedder` gives, kept in the file at `path`."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self._embedder = embedder
        self._kept = sqlite3.connect(path, check_same_thread=False)
        self._kept.execute("CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        keys = [hashlib.sha256(f"{self.name}\n{text}".encode()).digest() for text in texts]
        known = {key: row[0] for key in set(keys) if (row := self._row(key))}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            vectors = self._embedder.embed_documents(list(missing.values()))
            known |= {key: vector.astype(np.float32).tobytes() for key, vector in zip(missing, vectors, strict=True)}
            rows = [(key, known[key]) for key in missing]
            self._kept.executemany("INSERT OR IGNORE INTO vector VALUES (?, ?)", rows)
            self._kept.commit()
        return np.array([np.frombuffer(known[key], np.float32) for key in keys])

    def embed_query(self, text: str) -> Vectors:
        # Questions are embedded otherwise than what is stored, and quickly.
        return self._embedder.embed_query(text)

    def _row(self, key: bytes) -> tuple[bytes] | None:
        found: tuple[bytes] | None = self._kept.execute("SELECT value FROM vector WHERE key = ?", [key]).fetchone()
        return found


def vectors_keep(path: Path) -> None:
    """Let this process take the vectors of the configured model from the file at `path`, and add what is new."""
    from memory.embedding import registry

    name = registry.configured_name()
    cached = CachedEmbedder(registry.embedder_named(name), path)
    registry._made[name] = cached
