"""What a search answers: its hits, and how it found them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any

from memory.models import SearchItem
from memory.search.query_context import QueryContext
from memory.types import IndexEntry


@dataclass(frozen=True, slots=True)
class Retirement:
    """When and why a memory that was found is no longer included.

    `successor` is the id of the fact that replaced it and `successor_text` what that says; both are empty for what was
    only retired. `included_until` is the moment before which a search as of the past still finds it; None when there is
    none, as for what was found wrong.
    """

    at: datetime | None
    successor: str = ""
    successor_text: str = ""
    found_wrong: bool = False
    included_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One memory that was found.

    `score` is the fused relevance in [0, 1]; of one that is retired, what it would be, had it been alone. `cosine` is
    the model's own, 0 while the item has no vector and None where no vectors were compared; `lexical` the share of the
    query's rare words that the item holds, in [0, 1]. `metadata` is of an event as it was posted, and of other types
    what describes them. `subject` is as it was written, `subject_name` what the registry calls the thing now. `excerpt`
    is the passage of a long text that is nearest to the query, empty for a short one. `trust` is the trust class.
    `has_question` is whether a question is open now about a fact and another one, None where nobody has looked.
    """

    type: str
    id: str
    content: str
    metadata: Mapping[str, Any]
    score: float
    cosine: float | None
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
    retirement: Retirement | None = None
    project: str = ""
    task: str = ""
    subject_name: str = ""
    excerpt: str = ""
    trust: str = "agent"
    has_question: bool | None = None


HIT_COLUMNS = (
    "persona", "kind", "category", "scope", "project", "task", "subject", "loop_id", "tags", "importance",
    "happened_at", "recorded_at",
)  # fmt: skip
"""What a hit has of its row in the index, by the same names; besides it has type, id, content, metadata and scores."""


_hit_values = attrgetter(*HIT_COLUMNS)


def hit_of_entry(entry: IndexEntry | SearchItem, content: str, subject_name: str = "") -> SearchHit:
    """A memory as the index has it, or had it, that is there for another reason than a query: its scores are 0."""
    return SearchHit(
        type=entry.item_type,
        id=entry.item_id,
        content=content,
        metadata={},
        score=0.0,
        cosine=None,
        lexical=0.0,
        subject_name=subject_name or entry.subject,
        trust=getattr(entry, "trust", "agent"),
        **dict(zip(HIT_COLUMNS, _hit_values(entry), strict=True)),
    )


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
