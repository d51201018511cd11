"""The API of events: the append-only log."""

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from identity.models import Agent
from identity.principal import Principal
from identity.selectors import agent_called
from memory.api.common import ORIGIN, AnyPersona, AnyTrust, Quarantined, TrustName, agent_arguments, list_page, row_of
from memory.layers.event_validation import (
    MAX_EVENT_CHARACTERS,
    MAX_EVENTS_PER_CALL,
    MAX_KEY_CHARACTERS,
    MAX_LOOP_ID_CHARACTERS,
)
from memory.models import Event, EventKind, Trust
from memory.persona import PersonaMemory, memory_of, subconscious_memory_of
from memory.selectors.filters import EventFilter
from memory.services.events import events_record
from nousweb.lib import NotAllowed, choice_check, moment_check, text_check
from nousweb.lib.bounds import MAX_KEY_CHARACTERS as MAX_PROJECT_KEY_CHARACTERS
from nousweb.lib.bounds import WORD
from nousweb.lib.constrained_types import AgentSlug, AnyProject, AnyTask, AnyUser, PageCursor, PageLimit
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Derived, Moment, page_of

Id = Annotated[str, BeforeValidator(str)]
"""Of an event, as text, as search gives the ids of memories of every type."""


class EventIn(BaseModel):
    """Plain, for speed: a thousand come at once, and the service checks every text and names its place."""

    model_config = ConfigDict(extra="forbid")

    kind: str = Field(json_schema_extra={"enum": [*EventKind.values]})
    content: str = Field(
        description="Content of the event, verbatim",
        json_schema_extra={"minLength": 1, "maxLength": MAX_EVENT_CHARACTERS},
    )
    loop_id: str | None = Field(
        None,
        description="The loop it belongs to; events without one share a loop per call",
        json_schema_extra={"minLength": 1, "maxLength": MAX_LOOP_ID_CHARACTERS},
    )
    ts: Moment | None = Field(None, description="When it happened; now by default")
    visibility: str | None = Field(
        None,
        description="One word, such as public, internal or private; public by default",
        json_schema_extra={"pattern": f"^{WORD.pattern}$"},
    )
    metadata: dict[str, Any] | None = Field(None, description="Any data about the event: at most 64 KB, 10 levels deep")
    key: str | None = Field(
        None,
        description="Your key of the event: another event with the same key is not stored again",
        json_schema_extra={"minLength": 1, "maxLength": MAX_KEY_CHARACTERS},
    )
    project: str | None = Field(
        None,
        description="Your key of the project; that of its loop by default",
        json_schema_extra={"maxLength": MAX_PROJECT_KEY_CHARACTERS},
    )
    task: str | None = Field(
        None,
        description="Your key of the task, which belongs to the project or stands alone; that of its loop by default",
        json_schema_extra={"maxLength": MAX_PROJECT_KEY_CHARACTERS},
    )
    user: str | None = Field(
        None,
        description='Your key of the user, "*" for everybody; that of its loop by default, else the token\'s',
        json_schema_extra={"maxLength": MAX_PROJECT_KEY_CHARACTERS},
    )
    origin: str | None = Field(None, description=ORIGIN, json_schema_extra={"enum": [*Trust.values]})


class EventsIn(Schema):
    model_config = ConfigDict(extra="forbid")

    events: list[EventIn] = Field(
        description="All events are stored, or none", json_schema_extra={"minItems": 1, "maxItems": MAX_EVENTS_PER_CALL}
    )


class RecordedOut(Derived, of=Event, fields="id key kind persona loop_id project task user ts"):
    id: Id
    repeated: bool = Field(description="Whether its key was already in the log, so that nothing was stored")


class RecordedEventsOut(Schema):
    events: list[RecordedOut] = Field(description="One for each event of the call, in the same order")


class EventOut(
    Derived,
    of=Event,
    fields="id agent_id persona ts recorded_at loop_id project task user kind visibility content metadata"
    " trust quarantined key",
):
    id: Id
    agent_id: str = Field(alias="agent.slug", description="Slug of the agent")
    trust: TrustName
    quarantined: Quarantined


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
    recorded = events_record(**agent_arguments(request, agent), events=[dict(event) for event in payload.events])
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
                    "user": one.event.user,
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
    user: AnyUser = "",
    trust: AnyTrust = "",
    since: Moment | None = Query(None, alias="from", description="Only events at or after this time"),
    until: Moment | None = Query(None, alias="to", description="Only events before this time"),
    q: str = Query("", max_length=200, description="Only events whose content contains this text"),
    order: Literal["latest", "earliest"] = "latest",
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Events by the time at which they happened, verbatim."""
    memory, personas = personas_narrow(*agent_called(request, agent), persona)
    events = memory.events.filter(persona__in=personas).with_details()
    if kind:
        events = events.filter(kind__in=[choice_check("kind", name, EventKind.values) for name in kind])
    if loop_id:
        events = events.filter(loop_id=text_check("loop_id", loop_id, 100))
    if since:
        events = events.filter(ts__gte=moment_check("from", since))
    if until:
        events = events.filter(ts__lt=moment_check("to", until))
    events = EventFilter.narrow(events, q=text_check("q", q, 200), project=project, task=task, user=user, trust=trust)
    return list_page(events, moment="ts", limit=limit, cursor=cursor, latest_first=order == "latest")


@router.get("/events/{event_id}", response={200: EventOut, **REFUSALS}, summary="One event")
def event_get(request: HttpRequest, event_id: int, agent: AgentSlug = "", persona: AnyPersona = "") -> Any:
    """One event, word for word as it was recorded. Answers 404 for one that the caller's persona may not read."""
    memory, personas = personas_narrow(*agent_called(request, agent), persona)
    return row_of(memory.events.filter(persona__in=personas).with_details(), event_id, "event")
