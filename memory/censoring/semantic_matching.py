"""Compare meanings by the configured embedding model."""

from collections.abc import Sequence

from memory.censoring.censor_matching import SimilarityFailed
from memory.embedding import EmbeddingFailed, embedder_named, thresholds_of
from memory.embedding.protocol import Embedder, Vectors
from memory.embedding.registry import configured_name

REMEMBERED_MEANINGS = 1_000
_vectors: dict[tuple[str, str], Vectors] = {}


def semantic_similarities(meanings: Sequence[str], passages: Sequence[str]) -> list[list[float]]:
    """Cosines of each of `meanings` with each of `passages`. Raises SimilarityFailed."""
    try:
        embedder = embedder_named(configured_name())
        rows = [_vector(embedder, meaning) for meaning in meanings]
        if not passages:
            return [[] for _ in rows]
        vectors = embedder.embed_documents(passages)
        return [[float(cosine) for cosine in vectors @ row] for row in rows]
    except EmbeddingFailed as error:
        raise SimilarityFailed(f"Meanings cannot be compared at the moment: {error}") from error


def default_threshold() -> float:
    """The minimum cosine of the configured model at which a text counts as related to a censor's description."""
    return thresholds_of(configured_name()).unrelated


def _vector(embedder: Embedder, meaning: str) -> Vectors:
    """The cached vector of a censor's description."""
    key = (embedder.name, meaning)
    vector = _vectors.get(key)
    if vector is None:
        if len(_vectors) >= REMEMBERED_MEANINGS:
            _vectors.clear()
        vector = _vectors[key] = embedder.embed_documents([meaning])[0]
    return vector
