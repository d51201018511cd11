"""Schemas of the API of documents."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Query, Schema
from pydantic import Field

from memory.policy import (
    MAX_DOCUMENT_KEY_CHARACTERS,
    MAX_INDEX_FIELDS,
    MAX_NAMESPACE_CHARACTERS,
    MAX_NAMESPACE_LABELS,
    MAX_SEARCH_LIMIT,
)
from memory.schemas.memories import MemoryIn, MemoryOut
from memory.schemas.types import Remark
from nousweb.lib.constrained_types import (
    MAX_QUERY_CHARACTERS,
    Composed,
    ProjectKey,
    TaskKey,
    UnitInterval,
    entry,
)
from nousweb.lib.schemas import Input

Label = Annotated[Composed, entry(MAX_NAMESPACE_CHARACTERS)]
Namespace = Annotated[list[Label], Field(min_length=1, max_length=MAX_NAMESPACE_LABELS)]
NamespacePart = Annotated[list[Label], Field(max_length=MAX_NAMESPACE_LABELS)]
DocumentKey = Annotated[
    Composed,
    Field(
        min_length=1,
        max_length=MAX_DOCUMENT_KEY_CHARACTERS,
        description="Kept in Unicode's composed form (NFC): spellings that are equivalent are one key",
    ),
]

LABELS = Query(..., min_length=1, max_length=MAX_NAMESPACE_LABELS, description="One per label of the namespace")
NAMESPACE_START = Query([], max_length=MAX_NAMESPACE_LABELS, description="Prefix of the namespace")
LABEL_PATTERNS = Query([], max_length=MAX_NAMESPACE_LABELS, description="One per label; * matches any")
DEPTH = Query(None, ge=1, le=MAX_NAMESPACE_LABELS, description="Cut namespaces after this number of labels")
KEY = Query(..., min_length=1, max_length=MAX_DOCUMENT_KEY_CHARACTERS)
KEY_START = Query("", max_length=MAX_DOCUMENT_KEY_CHARACTERS, description="Prefix of the key")

BaseVersion = Annotated[
    int | None,
    Field(
        ge=0,
        le=2**31 - 1,
        description="Version on which this change is based, 0 for a key without a value; any version by default",
    ),
]


class DocumentIn(MemoryIn):
    namespace: Namespace = Field(description="Labels, from general to specific")
    key: DocumentKey
    value: dict[str, Any]
    index: Annotated[list[Annotated[str, entry(200)]], Field(max_length=MAX_INDEX_FIELDS)] | None = Field(
        None,
        description='Fields that search reads, such as "title" or "notes[*].text"; all by default, none to leave the '
        "document out of search and prompts",
    )
    base_version: BaseVersion = None


class DocumentOut(MemoryOut):
    namespace: list[str]
    key: str
    value: dict[str, Any]
    version: int
    index: list[str] | None = Field(alias="index_fields")
    endorsed: bool = Field(description="Whether people wrote, restored or retired it; then only people can change it")
    author: str = Field(alias="author_name")
    superseded_by: UUID | None = Field(None, alias="superseded_by_id")
    first_created_at: datetime = Field(description="When the key got a value after it last had none")
    created_at: datetime = Field(description="When this version was written")
    retired_at: datetime | None


class DocumentPutOut(Schema):
    action: Literal["created", "updated", "unchanged"]
    document: DocumentOut


class DocumentSearchIn(Input):
    namespace: NamespacePart = Field([], description="Prefix of the namespace")
    key_prefix: Annotated[Composed, Field(max_length=MAX_DOCUMENT_KEY_CHARACTERS)] = Field(
        "", description="Prefix of the key"
    )
    query: Annotated[str, Field(max_length=MAX_QUERY_CHARACTERS)] = Field("", description="Query; compared by meaning")
    filter: dict[str, Any] = Field(
        {}, description='Conditions on values, by name: a value, or {"$gt": 4} with $eq, $ne, $gt, $gte, $lt, $lte'
    )
    project: ProjectKey = ""
    task: TaskKey = ""
    limit: Annotated[int, Field(ge=1, le=MAX_SEARCH_LIMIT)] = 10
    offset: Annotated[int, Field(ge=0, le=100_000)] = Field(
        0, description=f"With a query, at most {MAX_SEARCH_LIMIT} less the limit"
    )
    min_score: UnitInterval | None = Field(None, description="Minimum relevance to the query")


class FoundDocumentOut(Schema):
    document: DocumentOut
    score: float | None = Field(description="Relevance to the query, 0 to 1; null without one")


class DocumentSearchOut(Schema):
    items: list[FoundDocumentOut]


class NamespacesOut(Schema):
    items: list[list[str]]


class DocumentReasonIn(Input):
    reason: Remark = ""
