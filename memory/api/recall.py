"""Searching memory over HTTP."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import AwareDatetime

from identity.selectors import agent_for
from memory.api.common import REFUSALS, principal
from memory.persona import memory_of
from memory.schemas.recall import IndexOut, ItemTypeName, RecallOut, ScopeName
from memory.search import SearchRequest, search
from memory.search.index_writer import index_counts
from nousweb.lib.errors import Invalid
from nousweb.lib.schemas import answered

router = Router()

MAX_QUERY = 4_000
MAX_VALUES = 20


@router.get("/recall", response={200: RecallOut, **REFUSALS}, summary="Search memory")
def recall_get(
    request: HttpRequest,
    q: str = Query(..., description="What is asked, as one would ask a person"),
    agent: str = "",
    type: list[ItemTypeName] = Query([], description="May repeat; all types by default"),
    limit: int = Query(10, ge=1, le=100),
    as_of: AwareDatetime | None = Query(None, description="Search what was known at this moment"),
    min_score: float | None = Query(
        None, ge=0, le=1, description="The model's threshold by default; 0 for everything, ranked"
    ),
    kind: list[str] = Query([]),
    category: list[str] = Query([]),
    exclude_category: list[str] = Query([]),
    scope: list[ScopeName] = Query([]),
    tag: list[str] = Query([], description="Items with any of these"),
    min_importance: float = Query(0.0, ge=0, le=1),
) -> Any:
    """Memories of the token's persona that answer the question, best first; none when nothing is about it."""
    by = principal(request)
    found = agent_for(by, agent)
    # The index shows events, facts and what else there is: whoever may search may see them all.
    by.require("memory.view_searchitem", found)
    if len(q) > MAX_QUERY:
        raise Invalid(f"q holds at most {MAX_QUERY:,} characters; this has {len(q):,}.", field="q")
    for name, values in (("kind", kind), ("category", category), ("exclude_category", exclude_category), ("tag", tag)):
        if len(values) > MAX_VALUES:
            raise Invalid(f"{name} may repeat at most {MAX_VALUES} times.", field=name)
    result = search(
        memory_of(found, by),
        SearchRequest(
            query=q,
            types=type,
            limit=limit,
            min_score=min_score,
            as_of=as_of,
            kinds=kind,
            categories=category,
            exclude_categories=exclude_category,
            scopes=scope,
            tags=tag,
            min_importance=min_importance,
        ),
    )
    return answered({"items": result.items, "threshold": result.threshold, "degraded": result.degraded})


@router.get("/index", response={200: IndexOut, **REFUSALS}, summary="State of the search index")
def index_get(request: HttpRequest, agent: str = "") -> Any:
    """How many memories of the token's persona can be found by meaning, wait for that, or failed."""
    by = principal(request)
    found = agent_for(by, agent)
    by.require("memory.view_searchitem", found)
    return index_counts(found.pk, memory_of(found, by).personas)
