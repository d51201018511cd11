"""Thresholds of cosines by embedding model, since equal cosines mean different things in different models."""

from dataclasses import dataclass


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
