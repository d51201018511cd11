"""Schemas of the API of loops and short-term memory."""

from datetime import datetime

from ninja import Schema
from pydantic import Field

from memory.schemas.events import EventOut, Id
from memory.schemas.types import PersonaName
from nousweb.lib.constrained_types import NextCursor, UnitInterval


class LoopOut(Schema):
    loop_id: str
    persona: PersonaName
    project: str = Field(description="The most specific one that its events name")
    task: str
    summary: str = Field(description="Empty until the loop is closed and summarised")
    kind: str
    visibility: str
    long_term_ids: list[Id]
    event_count: int
    covered_events: int = Field(description="Number of its events that the summary covers")
    first_event_at: datetime
    last_event_at: datetime
    closed_at: datetime | None
    closed_by: str = Field(description="output, request or idle; empty while the loop is open")


class LoopPage(Schema):
    items: list[LoopOut]
    next: NextCursor


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
