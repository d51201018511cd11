"""The API of documents: a key-value store in which each change is a version."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router

from memory.api.common import CHANGE_REFUSALS, REFUSALS, caller, list_page, row_of
from memory.schemas.documents import (
    DEPTH,
    KEY,
    KEY_START,
    LABEL_PATTERNS,
    LABELS,
    NAMESPACE_START,
    DocumentIn,
    DocumentOut,
    DocumentPutOut,
    DocumentReasonIn,
    DocumentSearchIn,
    DocumentSearchOut,
    Label,
    NamespacesOut,
)
from memory.schemas.types import AnyTrust
from memory.selectors.documents import DocumentStore
from memory.selectors.filters import DocumentFilter
from memory.services.documents import (
    document_key_check,
    document_put,
    document_release,
    document_restore,
    document_retire,
    namespace_check,
)
from nousweb.lib.constrained_types import (
    MAX_PAGE,
    AgentSlug,
    AnyProject,
    AnyTask,
    Composed,
    PageCursor,
    PageLimit,
    ProjectKey,
    TaskKey,
)
from nousweb.lib.schemas import page_of

router = Router()

ANY_VERSION = Query(None, ge=0, le=2**31 - 1, description="Only if this is the current version")


@router.put("/documents", response={200: DocumentPutOut, **CHANGE_REFUSALS}, summary="Keep a value under a key")
def documents_put(request: HttpRequest, payload: DocumentIn, agent: AgentSlug = "") -> Any:
    """Stores a JSON object as a new version; old versions stay, and people may restore one.

    The same value again changes nothing; the same request again with `base_version` gets the first response.
    """
    found, by, _ = caller(request, agent, "memory.add_document")
    return document_put(agent=found, by=by, **payload.dict())


@router.get("/documents", response={200: page_of(DocumentOut), **REFUSALS}, summary="List documents")
def documents_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    namespace: list[Label] = NAMESPACE_START,
    key_prefix: Composed = KEY_START,
    q: str = Query("", max_length=200, description="Words in the key or the text"),
    tag: str = "",
    state: str = Query("active", pattern="^(active|retired|superseded|all)$"),
    project: AnyProject = "",
    task: AnyTask = "",
    trust: AnyTrust = "",
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Documents of the token's persona, latest first; those that were retired, and earlier versions, when asked for."""
    _, _, memory = caller(request, agent, "memory.view_document")
    rows = DocumentFilter.narrow(
        memory.documents.within(namespace), q=q, tag=tag, state=state, project=project, task=task, trust=trust
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
) -> Any:
    """The value under a key of the caller's own persona. Answers 404 if there is none or it was retired."""
    found, by, _ = caller(request, agent, "memory.view_document")
    return DocumentStore(found, by, project, task).at(namespace_check(namespace), document_key_check(key))


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
    base_version: int | None = ANY_VERSION,
) -> Any:
    """Removes the value of a key; its versions stay, and people may restore one. Answers 404 if there is none.

    The same request again with `base_version` gets the first response.
    """
    found, by, _ = caller(request, agent, "memory.add_document")
    store = DocumentStore(found, by, project, task)
    document = store.at(namespace_check(namespace), document_key_check(key), retired_version=base_version)
    return document_retire(document=document, by=by, base_version=base_version)


@router.post("/documents/search", response={200: DocumentSearchOut, **REFUSALS}, summary="Search documents")
def documents_search(request: HttpRequest, payload: DocumentSearchIn, agent: AgentSlug = "") -> Any:
    """Documents of the caller's own persona below a namespace: the latest, or for a query the most relevant."""
    found, by, _ = caller(request, agent, "memory.view_document")
    by.require("memory.view_searchitem", found)
    items = DocumentStore(found, by, payload.project, payload.task).search(
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
    limit: int = Query(100, ge=1, le=MAX_PAGE),
    offset: int = Query(0, ge=0, le=100_000),
) -> Any:
    """The namespaces in which there are documents of the caller's own persona, each once, in order."""
    found, by, _ = caller(request, agent, "memory.view_document")
    store = DocumentStore(found, by, project, task)
    return {"items": store.namespaces(prefix=prefix, suffix=suffix, max_depth=max_depth, limit=limit, offset=offset)}


@router.get("/documents/{document_id}", response={200: DocumentOut, **REFUSALS}, summary="One version of a document")
def document_get(request: HttpRequest, document_id: UUID, agent: AgentSlug = "") -> Any:
    """One version as it was written. Answers 404 for one of another agent or persona."""
    _, _, memory = caller(request, agent, "memory.view_document")
    return row_of(memory.documents, document_id, "document")


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
    request: HttpRequest, document_id: UUID, payload: DocumentReasonIn | None = None, agent: AgentSlug = ""
) -> Any:
    """Restores the value of an earlier or retired version as a new version. People only."""
    _, by, memory = caller(request, agent, "memory.change_document")
    document = row_of(memory.documents.select_related("agent"), document_id, "document")
    return document_restore(document=document, by=by, reason=payload.reason if payload else "")


@router.post(
    "/documents/{document_id}/release",
    response={200: DocumentOut, **CHANGE_REFUSALS},
    summary="Let the agent change a document",
)
def document_release_post(request: HttpRequest, document_id: UUID, agent: AgentSlug = "") -> Any:
    """Lets the agent change values that people wrote, restored or retired under this key. People only."""
    _, by, memory = caller(request, agent, "memory.change_document")
    return document_release(document=row_of(memory.documents.select_related("agent"), document_id, "document"), by=by)
