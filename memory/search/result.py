"""The result of a search: its hits, and data about how they were found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any

from memory.models import SearchItem, Validity
from memory.models.base import whose_words
from memory.policy import SOURCE_NAMES
from memory.search.fusion import QueryContext
from memory.types import IndexEntry


@dataclass(frozen=True, slots=True)
class Retirement:
    """When and why a memory went out of use, or why it is not in use yet.

    `validity`: if it is not "current", the memory is not retired, and `at` is the end or the start of its valid time.
    `successor` is the id of the fact that replaced it, `successor_text` its content; both are empty if the memory was
    only retired. A search as of a moment before `included_until` still finds it; None if there is no such moment, as
    for invalidated facts.
    """

    at: datetime | None
    successor: str = ""
    successor_text: str = ""
    was_invalidated: bool = False
    included_until: datetime | None = None
    validity: Validity = Validity.CURRENT


# Not frozen, as to set a frozen field takes five times as long, and each prompt has dozens of these.
@dataclass(slots=True)
class SearchHit:
    """One memory that a search found. Whoever needs another makes a copy.

    `score`: fused relevance in [0, 1]; for a retired memory, the score that it would have alone.
    `cosine`: cosine of the embedding model, 0 while the item has no vector, None if no vectors were compared.
    `lexical`: share of the query's rare words that the item contains, in [0, 1].
    `metadata`: for an event, as it was posted; for other types, their describing fields.
    `subject`: as it was written; `subject_name`: the current name of that subject in the registry.
    `excerpt`: the passage of a long text that is nearest to the query, empty for a short text.
    `trust`: the trust class.
    `attribute`: what the writer of a fact says that it states of its subject, if it was looked up.
    `source_changed_at`: since when what it was read from is another one.
    `has_pending_review`: whether a review of this fact and another one is pending; None if that was not looked up.
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
    user: str = ""
    subject_name: str = ""
    excerpt: str = ""
    trust: str = "agent"
    has_pending_review: bool | None = None
    attribute: str = ""
    source_changed_at: datetime | None = None

    @property
    def whose(self) -> str:
        """Whose it is, for people; "" for everybody's."""
        return whose_words(self.user)


HIT_COLUMNS = (
    "persona", "kind", "category", "scope", "project", "task", "user", "subject", "loop_id", "tags", "importance",
    "happened_at", "recorded_at",
)  # fmt: skip
"""The fields that a hit takes from its row in the index, under the same names."""


_hit_values = attrgetter(*HIT_COLUMNS)


def hit_of_entry(
    entry: IndexEntry | SearchItem, content: str, metadata: Mapping[str, Any], trust: str, subject_name: str = ""
) -> SearchHit:
    """A hit for a memory that no query found, from its row in the index, now or then. Its scores are 0; of its metadata
    it has no more than its source, and when that changed."""
    return SearchHit(
        type=entry.item_type,
        id=entry.item_id,
        content=content,
        metadata={"source": next((metadata[name] for name in SOURCE_NAMES if metadata.get(name)), "")},
        score=0.0,
        cosine=None,
        lexical=0.0,
        subject_name=subject_name or entry.subject,
        trust=trust,
        source_changed_at=metadata.get("source_changed_at"),
        **dict(zip(HIT_COLUMNS, _hit_values(entry), strict=True)),
    )


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first. `degraded` is the reason why no vectors were used; empty if they were.

    `timings` are seconds by stage: counts, words (the lexical search), past (historical rows of a search as of a
    moment), embedding (remaining wait), candidates (the dense search, and neighbours), scoring, loading (contents).
    `query` is the input of `retired_search`.
    """

    items: list[SearchHit]
    threshold: float
    degraded: str = ""
    considered: int = 0
    timings: Mapping[str, float] = field(default_factory=dict)
    query: QueryContext | None = None
