"""Schemas of searches over HTTP."""

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from memory.schemas.types import ItemTypeName, PersonaName, ScopeName, TrustName
from nousweb.lib.constrained_types import UnitInterval


class RecallItem(Schema):
    id: str
    type: ItemTypeName
    content: str
    excerpt: str = Field(description="Of a long text the passage nearest to the question; empty for a short one")
    metadata: dict[str, Any] = Field(description="Of an event as it was posted; of other types what describes them")
    score: float = Field(description="Fused relevance, 0 to 1")
    cosine: float = Field(description="Of the embedding model; 0 while the item waits for its vector")
    lexical: float = Field(description="Share of the query's rare words that the item holds, 0 to 1")
    persona: PersonaName
    kind: str
    category: str
    scope: ScopeName
    project: str
    task: str
    subject: str
    loop_id: str
    tags: list[str]
    importance: UnitInterval
    happened_at: datetime
    recorded_at: datetime
    trust: TrustName


class RecallOut(Schema):
    items: list[RecallItem] = Field(description="Best first")
    threshold: float = Field(description="The score from which items were returned")
    degraded: str = Field(description="Empty, or why the search went by words alone")


class MemoryDetailOut(Schema):
    type: ItemTypeName
    id: str
    relation: Literal["", "before", "after", "part", "episode", "source", "replaces", "replaced_by"] = Field(
        description="What it is to the memory that was asked for; empty for that one itself"
    )
    content: str = Field(description="Whole, not shortened")
    kind: str
    active: bool = Field(description="False of what was replaced or retired")
    project: str
    task: str
    happened_at: datetime
    metadata: dict[str, Any]


class ExpansionOut(Schema):
    item: MemoryDetailOut
    related: list[MemoryDetailOut] = Field(description="Events in the order in which they happened")
    more: bool = Field(description="Whether there is more of it than was given")


class IndexOut(Schema):
    ready: int
    pending: int
    failed: int
    language: str = Field(description="By whose words memory is searched: its code, as set or detected")
