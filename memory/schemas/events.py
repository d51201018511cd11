"""Schemas of the API of events."""

from datetime import datetime
from typing import Annotated, Any

from ninja import Schema
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from memory.layers.event_validation import (
    MAX_EVENT_CHARACTERS,
    MAX_EVENTS_PER_CALL,
    MAX_KEY_CHARACTERS,
    MAX_LOOP_ID_CHARACTERS,
)
from memory.models import EventKind
from memory.schemas.types import EventKindName, PersonaName, Quarantined, TrustName
from nousweb.lib.constrained_types import MAX_KEY_CHARACTERS as MAX_PROJECT_KEY_CHARACTERS
from nousweb.lib.constrained_types import WORD
from nousweb.lib.schemas import Moment

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


class EventsIn(Schema):
    model_config = ConfigDict(extra="forbid")

    events: list[EventIn] = Field(
        description="All events are stored, or none", json_schema_extra={"minItems": 1, "maxItems": MAX_EVENTS_PER_CALL}
    )


class RecordedOut(BaseModel):
    id: Id
    key: str | None
    kind: EventKindName
    persona: PersonaName
    loop_id: str
    project: str
    task: str
    ts: datetime
    repeated: bool = Field(description="Whether its key was already in the log, so that nothing was stored")


class RecordedEventsOut(Schema):
    events: list[RecordedOut] = Field(description="One for each event of the call, in the same order")


class EventOut(Schema):
    id: Id
    ts: datetime
    recorded_at: datetime
    agent_id: str = Field(alias="agent.slug", description="Slug of the agent")
    persona: PersonaName
    loop_id: str
    project: str
    task: str
    kind: EventKindName
    visibility: str
    content: str
    metadata: dict[str, Any]
    trust: TrustName
    held: Quarantined
    key: str | None
