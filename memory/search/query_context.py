"""Data about a query that a search computes first: vector, lexemes, language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memory.embedding.protocol import Vectors
from memory.search.fusion import Statistics
from memory.search.request import SearchRequest


@dataclass(frozen=True, slots=True)
class Counts:
    """What is known of the collection before the search: `model` is the embedding model of its vectors, if any.

    `df` has the query's lexemes. `spellings` has, for a lexeme of a name in the query, the other names of the same
    subject, each as its lexemes: an item that holds all of one of these holds the lexeme. `unindexed` are
    the personas whose collection is too large to read every vector, and has no vector index of the model yet.
    """

    model: str
    items: int
    mean_words: float
    df: Mapping[str, int]
    spellings: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    unindexed: frozenset[str] = frozenset()

    @property
    def statistics(self) -> Statistics:
        """The counts as the scoring takes them."""
        return Statistics(self.items, self.mean_words, self.df)


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The data of a query, for another search in the same collection."""

    request: SearchRequest
    counts: Counts
    lexemes: Sequence[str]
    vector: Vectors | None
