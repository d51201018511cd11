"""Schemas of the API of episodes."""

from datetime import datetime
from typing import Annotated

from ninja import Schema
from pydantic import AwareDatetime, BeforeValidator, Field

from memory.policy import MAX_EVENTS_PER_APPEND, MAX_LESSONS, MAX_PARTICIPANTS, MAX_TITLE_CHARACTERS
from memory.schemas.events import Id
from memory.schemas.memories import MemoryIn, MemoryOut
from memory.schemas.types import (
    Content,
    Detail,
    EpisodeOutcome,
    EventKindName,
    PersonaName,
    RemarkEntry,
    SummaryKind,
)
from nousweb.lib.constrained_types import entry, text
from nousweb.lib.schemas import Input, fields_of, optional

Title = Annotated[str, text(MAX_TITLE_CHARACTERS)]


class EpisodeIn(MemoryIn):
    title: Title = ""
    detail: Detail = Field("", description="Free text of an episode without logged events")
    participants: Annotated[list[Annotated[str, entry(100)]], Field(max_length=MAX_PARTICIPANTS)] = []
    started_at: AwareDatetime | None = Field(None, description="Now by default")


def _number(given: object) -> object:
    """The id of an event as a number, whether it came as the text that the API gives or as a number."""
    return int(given) if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 20 else given


EventNumber = Annotated[int, BeforeValidator(_number), Field(strict=True)]


class EpisodeAppendIn(Input):
    event_ids: list[EventNumber] = Field(
        [], max_length=MAX_EVENTS_PER_APPEND, description="Ids that POST /api/events returned; each counts once"
    )
    text: Detail = Field("", description="Appended to the detail")


class EpisodeCloseIn(Input):
    outcome: EpisodeOutcome = Field("unknown", description="Never inferred")
    title: Title = optional()
    summary: Content = optional()
    lessons: Annotated[list[RemarkEntry], Field(max_length=MAX_LESSONS)] = optional()
    ended_at: AwareDatetime | None = Field(None, description="Now by default")


@fields_of(EpisodeIn, "title", "tags", "importance", patch=True)
class EpisodePatch(Input):
    """Fields that are left out stay as they are."""

    summary: Content = optional()
    active: bool = optional("Whether search and prompts may include it")


class EpisodeOut(MemoryOut):
    title: str
    summary: str
    summary_kind: SummaryKind
    outcome: EpisodeOutcome
    lessons: list[str]
    participants: list[str]
    started_at: datetime
    ended_at: datetime | None
    created_at: datetime
    updated_at: datetime


class TranscriptEvent(Schema):
    id: Id
    ts: datetime
    kind: EventKindName
    loop_id: str
    persona: PersonaName
    content: str


class TranscriptOut(Schema):
    events: list[TranscriptEvent] = Field(description="In chronological order")
    next: str | None = Field(description="Pass as `cursor` for the next events; null on the last page")


class EpisodeWithTranscript(EpisodeOut):
    detail: str
    transcript: TranscriptOut


class AppendedOut(Schema):
    added: int
    already: int = Field(description="Events that were already in the episode")
    episode: EpisodeOut
