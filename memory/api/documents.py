"""The API of documents: a key-value store in which each change is a version."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from identity.selectors import agent_called
from memory.api.common import (
    AnyTrust,
    ExpiryIn,
    ExpirySetIn,
    MemoryIn,
    MemoryOut,
    ReasonIn,
    SourcedIn,
    agent_arguments,
    caller,
    list_page,
    memory_arguments,
    memory_row,
    row_of,
)
from memory.models import Document
from memory.policy import (
    MAX_DOCUMENT_KEY_CHARACTERS,
    MAX_INDEX_FIELDS,
    MAX_NAMESPACE_CHARACTERS,
    MAX_NAMESPACE_LABELS,
    MAX_SEARCH_LIMIT,
)
from memory.selectors.documents import DocumentStore
from memory.selectors.filters import DocumentFilter
from memory.services.documents import (
    document_expiry_set,
    document_key_check,
    document_put,
    document_release,
    document_restore,
    document_retire,
    documents_refresh,
    namespace_check,
)
from nousweb.lib.bounds import MAX_PAGE, MAX_QUERY_CHARACTERS
from nousweb.lib.constrained_types import (
    AgentSlug,
    AnyProject,
    AnyTask,
    AnyUser,
    Composed,
    PageCursor,
    PageLimit,
    ProjectKey,
    ReadingUser,
    TaskKey,
    UnitInterval,
    entry,
)
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Input, page_of

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


class DocumentIn(MemoryIn, ExpiryIn, SourcedIn):
    namespace: Namespace = Field(description="Labels, from general to specific")
    key: DocumentKey
    value: dict[str, Any]
    index: Annotated[list[Annotated[str, entry(200)]], Field(max_length=MAX_INDEX_FIELDS)] | None = Field(
        None,
        description='Fields that search reads, such as "title" or "notes[*].text"; all by default, none to leave the '
        "document out of search and prompts",
    )
    base_version: BaseVersion = None


class DocumentOut(
    MemoryOut,
    of=Document,
    fields="namespace key value version index author superseded_by first_created_at created_at retired_at"
    " expires_at ttl source_ref source_changed_at",
):
    index: list[str] | None = Field(alias="index_fields")
    author: str = Field(alias="author_name")
    first_created_at: datetime = Field(description="When the key got a value after it last had none")
    created_at: datetime = Field(description="When this version was written")
    expires_at: datetime | None = Field(description="From then on it is left out everywhere, and erased later")
    ttl: int | None = Field(description="Seconds after which it expires, counted from its last write or refresh")
    source_ref: dict[str, Any] | None = Field(description="url or path, sha256 and seen_at of what it was read from")
    source_changed_at: datetime | None = Field(description="Since when its source is known to be another one")
    endorsed: bool = Field(description="Whether people wrote, restored or retired it; then only people can change it")


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
    user: ReadingUser = ""
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


router = Router()

ANY_VERSION = Query(None, ge=0, le=2**31 - 1, description="Only if this is the current version")


@router.put("/documents", response={200: DocumentPutOut, **CHANGE_REFUSALS}, summary="Keep a value under a key")
def documents_put(request: HttpRequest, payload: DocumentIn, agent: AgentSlug = "") -> Any:
    """Stores a JSON object as a new version; old versions stay, and people may restore one.

    The same value again changes nothing; the same request again with `base_version` gets the first response.
    """
    return document_put(**agent_arguments(request, agent, "memory.add_document"), **payload.dict())


@router.get("/documents", response={200: page_of(DocumentOut), **REFUSALS}, summary="List documents")
def documents_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    namespace: list[Label] = NAMESPACE_START,
    key_prefix: Composed = KEY_START,
    q: str = Query("", max_length=200, description="Words in the key or the text"),
    tag: str = "",
    state: str = Query("active", pattern="^(active|expired|retired|superseded|all)$"),
    project: AnyProject = "",
    task: AnyTask = "",
    user: AnyUser = "",
    trust: AnyTrust = "",
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Documents of the token's persona, latest first; expired, retired and earlier ones when asked for."""
    _, _, memory = caller(request, agent, "memory.view_document")
    rows = DocumentFilter.narrow(
        memory.documents.within(namespace),
        q=q,
        tag=tag,
        state=state,
        project=project,
        task=task,
        user=user,
        trust=trust,
    )
    if key_prefix:
        rows = rows.filter(key__startswith=key_prefix)
    return list_page(rows, moment="created_at", limit=limit, cursor=cursor)


@router.get("/documents/item", response={200: DocumentOut, **REFUSALS}, summary="The document of a key")
def document_item_get(
    request: HttpRequest,
    namespace: list[Label] = LABELS,
    key: str = KEY,
    agent: AgentSlug = "",
    project: ProjectKey = "",
    task: TaskKey = "",
    user: ReadingUser = "",
) -> Any:
    """The value under a key of the caller's own persona. Answers 404 if there is none or it was retired."""
    store = DocumentStore(*agent_called(request, agent, "memory.view_document"), project, task, user)
    return store.at(namespace_check(namespace), document_key_check(key))


@router.delete(
    "/documents/item", response={200: DocumentOut, **CHANGE_REFUSALS}, summary="Retire the document of a key"
)
def document_item_delete(
    request: HttpRequest,
    namespace: list[Label] = LABELS,
    key: str = KEY,
    agent: AgentSlug = "",
    project: ProjectKey = "",
    task: TaskKey = "",
    user: ReadingUser = "",
    base_version: int | None = ANY_VERSION,
) -> Any:
    """Removes the value of a key; its versions stay, and people may restore one. Answers 404 if there is none.

    The same request again with `base_version` gets the first response.
    """
    store = DocumentStore(*agent_called(request, agent, "memory.add_document"), project, task, user)
    document = store.at(namespace_check(namespace), document_key_check(key), retired_version=base_version)
    return document_retire(document=document, by=store.by, base_version=base_version)


class RefreshIn(Input):
    ids: Annotated[list[UUID], Field(min_length=1, max_length=MAX_SEARCH_LIMIT)]


class RefreshOut(Schema):
    refreshed: int = Field(description="Documents whose end moved")


@router.post(
    "/documents/refresh", response={200: RefreshOut, **REFUSALS}, summary="Begin the time to live of documents anew"
)
def documents_refresh_post(request: HttpRequest, payload: RefreshIn, agent: AgentSlug = "") -> Any:
    """For stores whose reads refresh the time to live: `ttl` counts from now again.

    An end that would move by less than a tenth of it stays, and so does that of documents that people decided.
    """
    return {"refreshed": documents_refresh(**agent_arguments(request, agent, "memory.add_document"), ids=payload.ids)}


@router.post("/documents/search", response={200: DocumentSearchOut, **REFUSALS}, summary="Search documents")
def documents_search(request: HttpRequest, payload: DocumentSearchIn, agent: AgentSlug = "") -> Any:
    """Documents of the caller's own persona below a namespace: the latest, or for a query the most relevant."""
    found, by = agent_called(request, agent, "memory.view_document")
    by.require("memory.view_searchitem", found)
    items = DocumentStore(found, by, payload.project, payload.task, payload.user).search(
        prefix=payload.namespace,
        key_prefix=payload.key_prefix,
        query=payload.query,
        conditions=payload.filter,
        limit=payload.limit,
        offset=payload.offset,
        min_score=payload.min_score,
    )
    return {"items": items}


@router.get("/documents/namespaces", response={200: NamespacesOut, **REFUSALS}, summary="List namespaces")
def document_namespaces_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    prefix: list[Label] = LABEL_PATTERNS,
    suffix: list[Label] = LABEL_PATTERNS,
    max_depth: int | None = DEPTH,
    project: ProjectKey = "",
    task: TaskKey = "",
    user: ReadingUser = "",
    limit: int = Query(100, ge=1, le=MAX_PAGE),
    offset: int = Query(0, ge=0, le=100_000),
) -> Any:
    """The namespaces in which there are documents of the caller's own persona, each once, in order."""
    store = DocumentStore(*agent_called(request, agent, "memory.view_document"), project, task, user)
    return {"items": store.namespaces(prefix=prefix, suffix=suffix, max_depth=max_depth, limit=limit, offset=offset)}


@router.get("/documents/{document_id}", response={200: DocumentOut, **REFUSALS}, summary="One version of a document")
def document_get(request: HttpRequest, document_id: UUID, agent: AgentSlug = "") -> Any:
    """One version as it was written. Answers 404 for one of another agent or persona."""
    return memory_row(request, agent, "view", Document, document_id)[0]


@router.get(
    "/documents/{document_id}/versions",
    response={200: page_of(DocumentOut), **REFUSALS},
    summary="All versions of a document",
)
def document_versions_get(
    request: HttpRequest, document_id: UUID, agent: AgentSlug = "", limit: PageLimit = 50, cursor: PageCursor = ""
) -> Any:
    """Every version of the same key, latest first."""
    _, _, memory = caller(request, agent, "memory.view_document")
    document = row_of(memory.documents, document_id, "document")
    rows = memory.documents.filter(persona=document.persona, address=document.address)
    return list_page(rows, moment="created_at", limit=limit, cursor=cursor)


@router.post(
    "/documents/{document_id}/restore", response={200: DocumentOut, **CHANGE_REFUSALS}, summary="Restore a version"
)
def document_restore_post(
    request: HttpRequest, document_id: UUID, payload: ReasonIn | None = None, agent: AgentSlug = ""
) -> Any:
    """Restores the value of an earlier or retired version as a new version. People only."""
    return document_restore(
        **memory_arguments(request, agent, "change", Document, document_id), reason=payload.reason if payload else ""
    )


@router.post(
    "/documents/{document_id}/release",
    response={200: DocumentOut, **CHANGE_REFUSALS},
    summary="Let the agent change a document",
)
def document_release_post(request: HttpRequest, document_id: UUID, agent: AgentSlug = "") -> Any:
    """Lets the agent change values that people wrote, restored or retired under this key. People only."""
    return document_release(**memory_arguments(request, agent, "change", Document, document_id))


@router.post(
    "/documents/{document_id}/expiry",
    response={200: DocumentOut, **CHANGE_REFUSALS},
    summary="Change when a document expires",
)
def document_expiry_post(request: HttpRequest, document_id: UUID, payload: ExpirySetIn, agent: AgentSlug = "") -> Any:
    """Let the active version expire at another time, or never; its value stays."""
    return document_expiry_set(**memory_arguments(request, agent, "add", Document, document_id), **payload.dict())
