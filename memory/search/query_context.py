"""What a search makes of its query before it looks for anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory.embedding.protocol import Vectors
from memory.search.request import SearchRequest
from memory.search.scoring import Statistics


@dataclass(frozen=True, slots=True)
class Counts:
    """What is known of the collection before the search: `model` is the embedding model of its vectors, if any.

    `df` has the query's lexemes.
    """

    model: str
    items: int
    mean_words: float
    df: Mapping[str, int]

    @property
    def statistics(self) -> Statistics:
        """The counts as the scoring takes them."""
        return Statistics(self.items, self.mean_words, self.df)


@dataclass(frozen=True, slots=True)
class QueryContext:
    """What a search made of its query, for another look at the same collection."""

    request: SearchRequest
    counts: Counts
    lexemes: Sequence[str]
    vector: Vectors | None
