"""What the API of episodes takes and gives."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, BeforeValidator, Field

from memory.schemas.events import Id
from nousweb.lib.schemas import Input


class EpisodeIn(Input):
    title: str = ""
    detail: str = Field("", description="What was said, for an episode that is not made of logged events")
    participants: list[str] = []
    tags: list[str] = []
    scope: str = Field("global", description="task, project or global")
    importance: float = Field(0.5, description="0 to 1")
    started_at: AwareDatetime | None = Field(None, description="Now, unless it began earlier")


def _number(given: object) -> object:
    """The id of an event as a number, whether it came as the text that the API gives or as a number."""
    return int(given) if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 20 else given


EventNumber = Annotated[int, BeforeValidator(_number), Field(strict=True)]


class EpisodeAppendIn(Input):
    event_ids: list[EventNumber] = Field(
        [], description="As POST /api/events gave them; at most 1,000, each counts once"
    )
    text: str = Field("", description="Goes to the end of the detail")


class EpisodeCloseIn(Input):
    outcome: str = Field("unknown", description="unknown, success, partial, failure or ongoing; never inferred")
    title: str = ""
    summary: str = ""
    lessons: list[str] = []
    ended_at: AwareDatetime | None = Field(None, description="Now, unless it ended earlier")


class EpisodePatch(Input):
    """Fields that are left out stay as they are."""

    title: str = ""
    summary: str = ""
    tags: list[str] = []
    importance: float = Field(0.5, description="0 to 1")
    active: bool = Field(True, description="Whether search and prompts may show it")


class EpisodeOut(Schema):
    id: UUID
    persona: str
    title: str
    summary: str
    summary_kind: str
    outcome: str
    lessons: list[str]
    participants: list[str]
    tags: list[str]
    scope: str
    importance: float
    active: bool
    started_at: datetime
    ended_at: datetime | None
    created_at: datetime
    updated_at: datetime


class TranscriptEvent(Schema):
    id: Id
    ts: datetime
    kind: str
    loop_id: str
    persona: str
    content: str


class TranscriptOut(Schema):
    events: list[TranscriptEvent] = Field(description="In the order in which they happened")
    next: str | None = Field(description="Pass as `cursor` for the next events; null on the last page")


class EpisodeWithTranscript(EpisodeOut):
    detail: str
    transcript: TranscriptOut


class EpisodePage(Schema):
    items: list[EpisodeOut]
    next: str | None = Field(description="Pass as `cursor` for the next page; null on the last")


class AppendedOut(Schema):
    added: int
    already: int = Field(description="Events that were in the episode before")
    episode: EpisodeOut
