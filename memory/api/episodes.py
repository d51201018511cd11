"""The API of episodes."""

from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import AwareDatetime, BeforeValidator, Field

from memory.api.common import (
    AnyEpisodeOutcome,
    AnyTrust,
    Content,
    Detail,
    EpisodeOutcome,
    MemoryIn,
    MemoryOut,
    OriginIn,
    RemarkEntry,
    agent_arguments,
    caller,
    list_page,
    memory_arguments,
    memory_page,
    row_of,
)
from memory.api.events import Id
from memory.models import Episode, Event
from memory.policy import MAX_EVENTS_PER_APPEND, MAX_LESSONS, MAX_PARTICIPANTS, MAX_TITLE_CHARACTERS
from memory.selectors.filters import EpisodeFilter
from memory.services.episodes import episode_append, episode_close, episode_open, episode_update
from nousweb.lib.constrained_types import AgentSlug, AnyProject, AnyTask, AnyUser, PageCursor, PageLimit, entry, text
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Derived, Input, optional, page_of

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


class EpisodeAppendIn(OriginIn):
    event_ids: list[EventNumber] = Field(
        [], max_length=MAX_EVENTS_PER_APPEND, description="Ids that POST /api/events returned; each counts once"
    )
    text: Detail = Field("", description="Appended to the detail")


class EpisodeCloseIn(OriginIn):
    outcome: EpisodeOutcome = Field("unknown", description="Never inferred")
    title: Title = optional()
    summary: Content = optional()
    lessons: Annotated[list[RemarkEntry], Field(max_length=MAX_LESSONS)] = optional()
    ended_at: AwareDatetime | None = Field(None, description="Now by default")


class EpisodePatch(Input, of=EpisodeIn, fields="title tags importance origin", patch=True):
    """Fields that are left out stay as they are."""

    summary: Content = optional()
    active: bool = optional("Whether search and prompts may include it")


class EpisodeOut(
    MemoryOut,
    of=Episode,
    fields="title summary summary_kind outcome lessons participants started_at ended_at created_at updated_at",
): ...


class TranscriptEvent(Derived, of=Event, fields="id ts kind loop_id persona content"):
    id: Id


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


router = Router()


@router.post("/episodes", response={201: EpisodeOut, **REFUSALS}, summary="Open an episode")
def episodes_post(request: HttpRequest, payload: EpisodeIn, agent: AgentSlug = "") -> Any:
    """Open an episode, from logged events added later or from free text (`detail`). Refuses a start in the future."""
    return Status(201, episode_open(**agent_arguments(request, agent, "memory.add_episode"), **payload.dict()))


@router.get("/episodes", response={200: page_of(EpisodeOut), **REFUSALS}, summary="List episodes")
def episodes_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    q: str = Query("", max_length=200, description="Words in title, summary or detail"),
    state: Literal["open", "closed", "all"] = "all",
    outcome: AnyEpisodeOutcome = "",
    tag: str = "",
    project: AnyProject = "",
    task: AnyTask = "",
    user: AnyUser = "",
    trust: AnyTrust = "",
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Episodes of the token's persona, latest first."""
    return memory_page(
        request,
        agent,
        Episode,
        EpisodeFilter,
        limit=limit,
        cursor=cursor,
        moment="started_at",
        q=q,
        state=state,
        outcome=outcome,
        tag=tag,
        project=project,
        task=task,
        user=user,
        trust=trust,
    )


@router.get(
    "/episodes/{episode_id}", response={200: EpisodeWithTranscript, **REFUSALS}, summary="One episode with transcript"
)
def episode_get(
    request: HttpRequest,
    episode_id: UUID,
    agent: AgentSlug = "",
    limit: int = Query(100, ge=1, le=500, description="Maximum number of transcript events"),
    cursor: PageCursor = "",
) -> Any:
    """An episode with its free text and a page of its events, in the order in which they happened."""
    _, _, memory = caller(request, agent, "memory.view_episode")
    episode = row_of(memory.episodes, episode_id, "episode")
    page = list_page(memory.transcript(episode), moment="ts", limit=limit, cursor=cursor, latest_first=False)
    shown = {name: getattr(episode, name) for name in EpisodeWithTranscript.model_fields if name != "transcript"}
    return shown | {"transcript": {"events": page["items"], "next": page["next"]}}


@router.post(
    "/episodes/{episode_id}/events", response={200: AppendedOut, **CHANGE_REFUSALS}, summary="Add events or text"
)
def episode_events_post(request: HttpRequest, episode_id: UUID, payload: EpisodeAppendIn, agent: AgentSlug = "") -> Any:
    """Add events of the same memory, or free text, to an open episode; an event is in it once."""
    return episode_append(**memory_arguments(request, agent, "change", Episode, episode_id), **payload.dict())


@router.post("/episodes/{episode_id}/close", response={200: EpisodeOut, **CHANGE_REFUSALS}, summary="Close an episode")
def episode_close_post(
    request: HttpRequest, episode_id: UUID, payload: EpisodeCloseIn | None = None, agent: AgentSlug = ""
) -> Any:
    """Close an episode with its outcome; it stays in search."""
    return episode_close(
        **memory_arguments(request, agent, "change", Episode, episode_id),
        **(payload.dict(exclude_unset=True) if payload else {}),
    )


@router.patch("/episodes/{episode_id}", response={200: EpisodeOut, **CHANGE_REFUSALS}, summary="Describe an episode")
def episode_patch(request: HttpRequest, episode_id: UUID, payload: EpisodePatch, agent: AgentSlug = "") -> Any:
    """Change title, summary, tags or importance, or whether search shows it."""
    return episode_update(
        **memory_arguments(request, agent, "change", Episode, episode_id), **payload.dict(exclude_unset=True)
    )
