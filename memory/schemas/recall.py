"""Schemas of the API of recall."""

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
    excerpt: str = Field(
        description="The passage of a long text that is nearest to the question; empty for a short text"
    )
    metadata: dict[str, Any] = Field(description="Metadata of an event as posted; for other types, descriptive fields")
    score: float = Field(description="Fused relevance, 0 to 1")
    cosine: float = Field(description="Cosine by the embedding model; 0 while the item has no vector")
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
    threshold: float = Field(description="Minimum score of returned items")
    degraded: str = Field(description="Why only words were searched; empty otherwise")


class MemoryDetailOut(Schema):
    type: ItemTypeName
    id: str
    relation: Literal["", "before", "after", "part", "episode", "source", "replaces", "replaced_by"] = Field(
        description="Relation to the requested memory; empty for that memory itself"
    )
    content: str = Field(description="Complete text")
    kind: str
    active: bool = Field(description="false if replaced, retired, expired or not yet valid")
    project: str
    task: str
    happened_at: datetime
    metadata: dict[str, Any]


class ExpansionOut(Schema):
    item: MemoryDetailOut
    related: list[MemoryDetailOut] = Field(description="Events in chronological order")
    more: bool = Field(description="Whether there are more than returned")


class IndexOut(Schema):
    ready: int
    pending: int
    failed: int
    language: str = Field(description="Code of the language of the word search, as set or detected")
