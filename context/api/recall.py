"""The API of recall: search memory, independently of a prompt or within a turn."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from context.api import TimeZone
from context.engine.analysis.agent_time import agent_time_read, zone_check, zone_of
from context.engine.retrieval.recent_conversations import (
    MAX_RECENT,
    MAX_RECENT_LISTED,
    RECENT_HOURS,
    RecentConversation,
    recent_conversations,
)
from context.models import ContextRun
from context.selectors import run_called
from context.services.recall import recall_expand, recall_search
from identity.models import Agent
from identity.principal import Principal
from identity.selectors import agent_called, caller_of
from memory.api.common import INCLUDE_PROJECT, AllProjects, ItemTypeName, PersonaName, ScopeName, TrustName
from memory.models import ProjectScope, Trust, scope_check
from memory.persona import memory_of
from memory.policy import MAX_SEARCH_LIMIT
from memory.search.request import SearchRequest
from memory.search.result import SearchHit
from memory.selectors.memory_expansion import MemoryDetail, memory_expand, memory_search
from memory.types import MEMORY_TYPES
from nousweb.lib import NotFound, clock
from nousweb.lib.bounds import MAX_QUERY_CHARACTERS
from nousweb.lib.constrained_types import AgentSlug, ProjectKey, ReadingUser, TaskKey, UnitInterval
from nousweb.lib.injection.pieces import scan_cached
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Derived, Moment, raw_json_response


class RecallItem(
    Derived,
    of=SearchHit,
    fields="id type content excerpt metadata score cosine lexical persona kind category scope project task user subject"
    " loop_id tags importance happened_at recorded_at trust",
):
    type: ItemTypeName
    excerpt: str = Field(
        description="The passage of a long text that is nearest to the question; empty for a short text"
    )
    metadata: dict[str, Any] = Field(description="Metadata of an event as posted; for other types, descriptive fields")
    score: float = Field(description="Fused relevance, 0 to 1")
    cosine: float = Field(description="Cosine by the embedding model; 0 while the item has no vector")
    lexical: float = Field(description="Share of the query's rare words that the item holds, 0 to 1")
    persona: PersonaName
    scope: ScopeName
    importance: UnitInterval
    trust: TrustName


class RecallOut(Schema):
    items: list[RecallItem] = Field(description="Best first")
    threshold: float = Field(description="Minimum score of returned items")
    degraded: str = Field(description="Why only words were searched; empty otherwise")


class RecentItem(Derived, of=RecentConversation, fields="type id title started_at ended_at project task user"):
    type: Literal["episode", "loop"]
    title: str = Field(description="Title of an episode; the beginning of the summary of a loop")
    ended_at: datetime | None = Field(description="Last event of a loop; null for an open episode")


class RecentOut(Schema):
    items: list[RecentItem] = Field(description="The latest first")


class MemoryDetailOut(
    Derived, of=MemoryDetail, fields="type id relation content kind active project task user happened_at metadata"
):
    type: ItemTypeName
    relation: Literal["", "before", "after", "part", "episode", "source", "replaces", "replaced_by"] = Field(
        description="Relation to the requested memory; empty for that memory itself"
    )
    content: str = Field(description="Complete text")
    active: bool = Field(description="false if replaced, retired, expired or not yet valid")


class ExpansionOut(Schema):
    item: MemoryDetailOut
    related: list[MemoryDetailOut] = Field(description="Events in chronological order")
    more: bool = Field(description="Whether there are more than returned")


router = Router(tags=["memory"])

MAX_VALUES = 20
"""Times that one filter may repeat."""
ContextId = Annotated[
    UUID | None,
    Query(description="Context of the turn: the recall is logged there, and the answer is compared with it too"),
]


@router.get("/recall", response={200: RecallOut, **CHANGE_REFUSALS}, summary="Search memory")
def recall_get(
    request: HttpRequest,
    q: str = Query(..., max_length=MAX_QUERY_CHARACTERS, description="The question, in natural language"),
    agent: AgentSlug = "",
    type: list[ItemTypeName] = Query([], description="May repeat; all types by default"),
    limit: int = Query(10, ge=1, le=MAX_SEARCH_LIMIT),
    as_of: Moment | None = Query(None, description="Search what was known at this moment"),
    min_score: UnitInterval | None = Query(
        None, description="The model's threshold by default; 0 for everything, ranked"
    ),
    kind: list[str] = Query([], max_length=MAX_VALUES),
    category: list[str] = Query([], max_length=MAX_VALUES),
    exclude_category: list[str] = Query([], max_length=MAX_VALUES),
    scope: list[ScopeName] = Query([]),
    tag: list[str] = Query([], max_length=MAX_VALUES, description="Only items with any of these tags"),
    min_importance: UnitInterval = 0.0,
    project: ProjectKey = "",
    task: TaskKey = "",
    user: ReadingUser = "",
    include_project: list[ProjectKey] = INCLUDE_PROJECT,
    all_projects: AllProjects = False,
    time_zone: TimeZone = "",
    context: ContextId = None,
) -> Any:
    """Memories of the token's persona that answer the question, best first; empty if none is relevant.

    A question about a time, such as "What did we decide last week?", finds the memories of that time first.

    Global ones, and those of the project, task and user that are named; nothing of others unless asked for, and never
    of another user. With `context`, what is found counts as shown in that turn; 409 once its answer has been
    reported.
    """
    run, found, by = _place(request, context, agent)
    # The index shows events, facts and what else there is: whoever may search may see them all.
    by.require("memory.view_searchitem", found)
    allowed = scope_check(ProjectScope(project, task, tuple(include_project), all_projects, user), by)
    view, now, zone = memory_of(found, by), as_of or clock.now(), zone_of(found, zone_check(time_zone))
    asked = SearchRequest(
        query=q,
        scope=allowed,
        period=agent_time_read(view, q, allowed, now=now, zone=zone, as_of=as_of).period,
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
    )
    result = recall_search(run=run, request=asked, by=by) if run else memory_search(view, asked, by)
    items = [{name: getattr(hit, name) for name in RecallItem.model_fields} for hit in result.items]
    return raw_json_response({"items": items, "threshold": result.threshold, "degraded": result.degraded})


@router.get("/recall/recent", response={200: RecentOut, **REFUSALS}, summary="The last conversations")
def recall_recent_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    hours: int = Query(RECENT_HOURS, ge=1, le=24 * 366),
    limit: int = Query(MAX_RECENT, ge=1, le=MAX_RECENT_LISTED),
    as_of: Moment | None = Query(None, description="Those that were known at this moment"),
    project: ProjectKey = "",
    task: TaskKey = "",
    user: ReadingUser = "",
    include_project: list[ProjectKey] = INCLUDE_PROJECT,
    all_projects: AllProjects = False,
) -> Any:
    """The last episodes, or loops if there are none, of the token's persona: their titles and times, the latest
    first."""
    found, by = agent_called(request, agent, "memory.view_searchitem")
    allowed = scope_check(ProjectScope(project, task, tuple(include_project), all_projects, user), by)
    items = recent_conversations(
        memory_of(found, by), allowed, now=as_of or clock.now(), as_of=as_of, hours=hours, limit=limit
    )
    shown = [one for one in items if by.is_person or scan_cached(one.title, Trust.AGENT) is None]
    return raw_json_response({"items": [asdict(one) for one in shown]})


@router.get(
    "/recall/{type}/{memory_id}",
    response={200: ExpansionOut, **CHANGE_REFUSALS},
    summary="A memory with what is around it",
)
def recall_expand_get(
    request: HttpRequest,
    type: ItemTypeName,
    memory_id: str,
    agent: AgentSlug = "",
    around: int = Query(3, ge=0, le=50, description="Number of events of the loop before and after an event"),
    context: ContextId = None,
) -> Any:
    """One complete memory, and related memories in the same project and task, of the same user.

    Of an event its neighbours in the loop and its episode; of an episode its events; of a fact its source, what it
    replaced and what has replaced it. The beginning of an id, from 8 digits, is enough if no other id begins so.
    Answers 404 for one that the caller's persona may not read. With `context`, it counts as shown in that turn; 409
    once its answer has been reported.
    """
    run, found, by = _place(request, context, agent)
    by.require("memory.view_searchitem", found)
    by.require(MEMORY_TYPES[type].permission("view"), found)
    if run:
        return recall_expand(run=run, type_name=type, memory_id=memory_id, around=around, by=by)
    return memory_expand(memory_of(found, by), type, memory_id, around=around)


def _place(request: HttpRequest, context: UUID | None, slug: str) -> tuple[ContextRun | None, Agent, Principal]:
    """The run of the context that is named, if any, which must be of the agent that is; the agent, and who calls.
    Raises NotFound."""
    if context is None:
        return None, *agent_called(request, slug)
    by = caller_of(request)
    run = run_called(by, context)
    if slug and run.agent.slug != slug:
        raise NotFound("There is no such context of this agent.")
    return run, run.agent, by
