"""What a search answers: its hits, and how it found them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memory.search.query_context import QueryContext


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One memory that was found.

    `score` is the fused relevance in [0, 1]. `cosine` is the model's own, 0 while the item has no vector; `lexical`
    the share of the query's rare words that the item holds, in [0, 1]. `metadata` is of an event as it was posted,
    and of other types what describes them.
    """

    type: str
    id: str
    content: str
    metadata: Mapping[str, Any]
    score: float
    cosine: float
    lexical: float
    persona: str
    kind: str
    category: str
    scope: str
    subject: str
    loop_id: str
    tags: Sequence[str]
    importance: float
    happened_at: datetime
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first. `degraded` says why the vectors had no part in it, else it is empty.

    `timings` are seconds by stage: counts, words (the lexical search), past (as of a moment, what has changed since),
    embedding (what was left to wait for), candidates (the dense search, and neighbours), scoring, loading (the memories
    themselves).
    `query` lets `retired_search` look once more, at what is no longer included.
    """

    items: list[SearchHit]
    threshold: float
    degraded: str = ""
    considered: int = 0
    timings: Mapping[str, float] = field(default_factory=dict)
    query: QueryContext | None = None
