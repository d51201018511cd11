"""The API of events: the append-only log."""

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Status

from identity.models import Agent
from identity.principal import Principal
from identity.selectors import agent_for
from memory.api.common import CHANGE_REFUSALS, REFUSALS, list_page, principal, row_of
from memory.models import EventKind
from memory.persona import PersonaMemory, memory_of, subconscious_memory_of
from memory.schemas.events import EventOut, EventsIn, RecordedEventsOut
from memory.schemas.types import AnyPersona, AnyTrust
from memory.selectors.filters import EventFilter
from memory.services.events import events_record
from nousweb.lib.constrained_types import AgentSlug, AnyProject, AnyTask, PageCursor, PageLimit
from nousweb.lib.errors import NotAllowed
from nousweb.lib.schemas import Moment, page_of
from nousweb.lib.validation import choice_check, moment_check, text_check

router = Router()


def personas_narrow(agent: Agent, by: Principal, persona: str) -> tuple[PersonaMemory, tuple[str, ...]]:
    """The memory that `by` may read, and of its personas those that are asked for.

    A token reads what its persona may; naming a persona only ever narrows it. People read the actor's, and the
    subconscious's by naming it, with the permission of its own. Raises NotAllowed.
    """
    by.require("memory.view_event", agent)
    if by.token is None and persona == "subconscious":
        return subconscious_memory_of(agent, by, include_quarantined=True), (persona,)
    memory = memory_of(agent, by, include_quarantined=True)
    if persona and persona not in memory.personas:
        raise NotAllowed(f"The memory of the {persona} is not for this caller.")
    return memory, (persona,) if persona else memory.personas


@router.post("/events", response={201: RecordedEventsOut, **CHANGE_REFUSALS}, summary="Record events")
def events_post(request: HttpRequest, payload: EventsIn, agent: AgentSlug = "") -> Any:
    """Append events to the log of the token's persona: all of them, or none when one is refused.

    For an event whose `key` is already in the log, the existing event is returned.
    """
    by = principal(request)
    recorded = events_record(agent=agent_for(by, agent), events=[dict(event) for event in payload.events], by=by)
    return Status(
        201,
        {
            "events": [
                {
                    "id": one.event.pk,
                    "key": one.event.key,
                    "kind": one.event.kind,
                    "persona": one.event.persona,
                    "loop_id": one.event.loop_id,
                    "project": one.event.project,
                    "task": one.event.task,
                    "ts": one.event.ts,
                    "repeated": one.repeated,
                }
                for one in recorded
            ]
        },
    )


@router.get("/events", response={200: page_of(EventOut), **REFUSALS}, summary="List events")
def events_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    persona: AnyPersona = "",
    kind: list[str] = Query([], description="May repeat"),
    loop_id: str = "",
    project: AnyProject = "",
    task: AnyTask = "",
    trust: AnyTrust = "",
    since: Moment | None = Query(None, alias="from", description="Only events at or after this time"),
    until: Moment | None = Query(None, alias="to", description="Only events before this time"),
    q: str = Query("", max_length=200, description="Only events whose content contains this text"),
    order: Literal["latest", "earliest"] = "latest",
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Events by the time at which they happened, verbatim."""
    by = principal(request)
    memory, personas = personas_narrow(agent_for(by, agent), by, persona)
    events = memory.events.filter(persona__in=personas).with_details()
    if kind:
        events = events.filter(kind__in=[choice_check("kind", name, EventKind.values) for name in kind])
    if loop_id:
        events = events.filter(loop_id=text_check("loop_id", loop_id, 100))
    if since:
        events = events.filter(ts__gte=moment_check("from", since))
    if until:
        events = events.filter(ts__lt=moment_check("to", until))
    events = EventFilter.narrow(events, q=text_check("q", q, 200), project=project, task=task, trust=trust)
    return list_page(events, moment="ts", limit=limit, cursor=cursor, latest_first=order == "latest")


@router.get("/events/{event_id}", response={200: EventOut, **REFUSALS}, summary="One event")
def event_get(request: HttpRequest, event_id: int, agent: AgentSlug = "", persona: AnyPersona = "") -> Any:
    """One event, word for word as it was recorded. Answers 404 for one that the caller's persona may not read."""
    by = principal(request)
    memory, personas = personas_narrow(agent_for(by, agent), by, persona)
    return row_of(memory.events.filter(persona__in=personas).with_details(), event_id, "event")
