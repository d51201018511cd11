"""The API of loops and short-term memory."""

from typing import Any, Literal

from django.db.models import Value
from django.db.models.functions import MD5, Concat
from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from identity.selectors import agent_called
from memory.api.common import INCLUDE_PROJECT, AllProjects, AnyPersona, agent_arguments, list_page
from memory.api.events import EventOut, Id, personas_narrow
from memory.layers.event_validation import MAX_LOOP_ID_CHARACTERS
from memory.layers.short_term_search import MAX_STM_WINDOW, StmConfig, stm_search
from memory.models import LoopSummary, ProjectScope, scope_check
from memory.services.loops import loop_close
from nousweb.lib import clock, existing, moment_check, text_check
from nousweb.lib.constrained_types import (
    AgentSlug,
    AnyProject,
    AnyTask,
    AnyUser,
    PageCursor,
    PageLimit,
    ProjectKey,
    ReadingUser,
    TaskKey,
    UnitInterval,
)
from nousweb.lib.schemas import REFUSALS, Derived, Moment, page_of


class LoopOut(
    Derived,
    of=LoopSummary,
    fields="loop_id persona project task user summary kind visibility long_term_ids event_count covered_events"
    " first_event_at last_event_at closed_at closed_by",
):
    project: str = Field(description="The most specific one that its events name")
    summary: str = Field(description="Empty until the loop is closed and summarised")
    kind: str
    long_term_ids: list[Id]
    covered_events: int = Field(description="Number of its events that the summary covers")
    closed_by: str = Field(description="output, request or idle; empty while the loop is open")


class LoopWithEvents(Schema):
    loop: LoopOut
    events: list[EventOut] = Field(description="In order; the first 1,000. `GET /events?loop_id=` has them all")


class StmItem(Schema):
    loop: LoopOut
    similarity: UnitInterval = Field(description="Word similarity of query and summary")
    recency: UnitInterval = Field(description="Halved every half-life")
    boost: float
    score: float = Field(description="(w_similarity × similarity + w_recency × recency) × boost")


class StmOut(Schema):
    items: list[StmItem] = Field(description="Best first")
    problems: list[str] = Field(description="Settings of the agent's short-term search that could not be used")


router = Router()

EVENTS_SHOWN = 1_000
MAX_QUERY_CHARACTERS = 1_000


@router.get("/loops", response={200: page_of(LoopOut), **REFUSALS}, summary="List loops")
def loops_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    persona: AnyPersona = "",
    state: Literal["all", "open", "closed"] = "all",
    project: AnyProject = "",
    task: AnyTask = "",
    user: AnyUser = "",
    since: Moment | None = Query(
        None, alias="from", description="Only loops whose last event is at or after this time"
    ),
    until: Moment | None = Query(None, alias="to", description="Only loops whose last event is before this time"),
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """The short-term entries, by their last event, latest first."""
    memory, personas = personas_narrow(*agent_called(request, agent), persona)
    loops = memory.loops.filter(persona__in=personas)
    loops = loops.filter(**{name: key for name, key in (("project", project), ("task", task), ("user", user)) if key})
    if state != "all":
        loops = loops.filter(closed_at__isnull=state == "open")
    if since:
        loops = loops.filter(last_event_at__gte=moment_check("from", since))
    if until:
        loops = loops.filter(last_event_at__lt=moment_check("to", until))
    # Both personas may have a loop of one name; names are long, and their order means nothing.
    loops = loops.annotate(named=MD5(Concat("loop_id", Value(" "), "persona")))
    return list_page(loops, moment="last_event_at", limit=limit, cursor=cursor, key="named")


# Before the loop itself, whose name may hold slashes and would match this address too.
@router.post("/loops/{path:loop_id}/close", response={200: LoopOut, **REFUSALS}, summary="Close a loop")
def loop_close_post(request: HttpRequest, loop_id: str, agent: AgentSlug = "") -> Any:
    """Close a loop. Its summary is created afterwards, and also covers events that arrive later."""
    whose = agent_arguments(request, agent)
    return loop_close(**whose, loop_id=text_check("loop_id", loop_id, MAX_LOOP_ID_CHARACTERS))


@router.get("/loops/{path:loop_id}", response={200: LoopWithEvents, **REFUSALS}, summary="One loop")
def loop_get(request: HttpRequest, loop_id: str, agent: AgentSlug = "", persona: AnyPersona = "") -> Any:
    """A loop's short-term entry and its events. If both personas have a loop with this id, the caller's own."""
    memory, personas = personas_narrow(*agent_called(request, agent), persona)
    loop_id = text_check("loop_id", loop_id, MAX_LOOP_ID_CHARACTERS)
    named: dict[str, LoopSummary] = {
        loop.persona: loop for loop in memory.loops.filter(loop_id=loop_id, persona__in=personas)
    }
    loop = existing(named.get(memory.persona) or next(iter(named.values()), None), "There is no such loop.")
    events = memory.events.filter(persona=loop.persona).of_loop(loop.loop_id).with_details()
    return {"loop": loop, "events": list(events[:EVENTS_SHOWN])}


@router.get("/stm", response={200: StmOut, **REFUSALS}, summary="Search short-term memory")
def stm_get(
    request: HttpRequest,
    q: str = Query(min_length=1, max_length=MAX_QUERY_CHARACTERS),
    agent: AgentSlug = "",
    persona: AnyPersona = "",
    project: ProjectKey = "",
    task: TaskKey = "",
    user: ReadingUser = "",
    include_project: list[ProjectKey] = INCLUDE_PROJECT,
    all_projects: AllProjects = False,
    min_score: float = Query(0.0, ge=0.0, le=1_000.0, allow_inf_nan=False),
    limit: int = Query(10, ge=1, le=MAX_STM_WINDOW),
) -> Any:
    """Fuzzy search in the window of the last loop summaries of a project, a task and a user, best first."""
    found, by = agent_called(request, agent)
    memory, personas = personas_narrow(found, by, persona)
    query = text_check("q", q, MAX_QUERY_CHARACTERS)
    config = StmConfig.of(found.config)
    scope = scope_check(ProjectScope(project, task, tuple(include_project), all_projects, user), by)
    hits = stm_search(memory, scope, query, personas=personas, now=clock.now(), config=config, min_score=min_score)
    return {
        "items": [
            {
                "loop": hit.loop,
                "similarity": hit.score.similarity,
                "recency": hit.score.recency,
                "boost": hit.score.boost,
                "score": hit.score.score,
            }
            for hit in hits[:limit]
        ],
        "problems": list(config.problems),
    }
