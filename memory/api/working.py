"""The API of working memory."""

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Router, Schema, Status
from pydantic import Field

from memory.api.common import Remark, RequiredRemark, agent_arguments, caller
from memory.models import (
    ProjectScope,
    WorkingMemory,
    scope_check,
)
from memory.policy import MAX_FRAME_CHARACTERS, MAX_THREAD_CHARACTERS, MAX_WORKING_ITEMS
from memory.services.working_memory import (
    session_of,
    working_clear,
    working_item_add,
    working_item_remove,
    working_set,
    working_thread_close,
    working_thread_open,
)
from nousweb.lib import existing
from nousweb.lib.constrained_types import (
    AgentSlug,
    OptionalWord,
    ProjectKey,
    ReadingUser,
    TaskKey,
    UnitInterval,
    UserKey,
    Word,
    text,
)
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Derived, Input


class WorkingIn(Input):
    task: Remark = Field("", description="Task of the session")
    frame: Annotated[OptionalWord, text(MAX_FRAME_CHARACTERS)] = Field(
        "", description="Frame of the session's prompts if a request names none; unknown words are shown unchanged"
    )
    project: ProjectKey = ""
    task_key: TaskKey = ""
    user: UserKey = ""
    capacity: int = Field(20, ge=1, le=MAX_WORKING_ITEMS, description="Maximum number of items")


class WorkingItemIn(Input):
    text: RequiredRemark
    type: Word = "note"
    relevance: UnitInterval = Field(0.5, description="The least relevant items are removed first")
    user: UserKey = ""


class WorkingThreadIn(Input):
    text: Annotated[str, text(MAX_THREAD_CHARACTERS, min_length=1)]
    user: UserKey = ""


class WorkingItem(Schema):
    id: str
    type: str
    text: str
    relevance: UnitInterval
    added_at: datetime


class WorkingThread(Derived, of=WorkingItem, fields="id text added_at"): ...


class WorkingOut(
    Derived,
    of=WorkingMemory,
    fields="session_id persona task project task_key user frame capacity items open_threads quarantined"
    " created_at updated_at",
):
    items: list[WorkingItem] = Field(description="In order of arrival")
    open_threads: list[WorkingThread]
    quarantined: int = Field(description="Texts that are quarantined until a person allows them")

    @staticmethod
    def resolve_quarantined(working: WorkingMemory) -> int:
        return len(working.quarantined_entries)


class WorkingSetOut(Schema):
    working: WorkingOut
    evicted: list[WorkingItem] = Field(description="Items beyond the capacity")


class WorkingItemOut(Schema):
    item: WorkingItem
    evicted: list[WorkingItem] = Field(description="Items removed to make room; this may be the new item itself")


class WorkingThreadOut(Schema):
    thread: WorkingThread


router = Router()

CHANGE = "memory.change_workingmemory"


@router.get("/working/{session_id}", response={200: WorkingOut, **REFUSALS}, summary="What a session has in mind")
def working_get(request: HttpRequest, session_id: str, agent: AgentSlug = "", user: ReadingUser = "") -> Any:
    """The task, items and open threads of one session of the caller's persona. Answers 404 where there are none."""
    _, by, memory = caller(request, agent, "memory.view_workingmemory")
    scope = scope_check(ProjectScope(user=user), by)
    # The subconscious has a session of its own, whatever the actor calls its.
    return existing(
        session_of(memory.working.filter(session_id=session_id, persona=by.persona, user=scope.user), by),
        "This session has no working memory.",
    )


@router.put("/working/{session_id}", response={200: WorkingSetOut, **REFUSALS}, summary="Set task, frame and capacity")
def working_put(request: HttpRequest, session_id: str, payload: WorkingIn, agent: AgentSlug = "") -> Any:
    """Creates the session's working memory if there is none; items and threads stay, as far as they fit."""
    return working_set(**agent_arguments(request, agent, CHANGE), session_id=session_id, **payload.dict())


@router.delete("/working/{session_id}", response={204: None, **REFUSALS}, summary="Empty a session's mind")
def working_delete(request: HttpRequest, session_id: str, agent: AgentSlug = "", user: UserKey = "") -> Any:
    """Clears a session's task, frame, items and threads; its capacity stays. Answers 404 if there are none."""
    working_clear(**agent_arguments(request, agent, CHANGE), session_id=session_id, user=user)
    return Status(204, None)


@router.post("/working/{session_id}/items", response={201: WorkingItemOut, **REFUSALS}, summary="Take in mind")
def working_items_post(request: HttpRequest, session_id: str, payload: WorkingItemIn, agent: AgentSlug = "") -> Any:
    """Beyond the capacity the least relevant item is removed; of equally relevant items the oldest."""
    added = working_item_add(**agent_arguments(request, agent, CHANGE), session_id=session_id, **payload.dict())
    return Status(201, added)


@router.delete("/working/{session_id}/items/{item_id}", response={204: None, **REFUSALS}, summary="Let go")
def working_item_delete(
    request: HttpRequest, session_id: str, item_id: str, agent: AgentSlug = "", user: UserKey = ""
) -> Any:
    """Remove one item from the session's working memory. Answers 404 when it holds no such item."""
    working_item_remove(**agent_arguments(request, agent, CHANGE), session_id=session_id, item_id=item_id, user=user)
    return Status(204, None)


@router.post(
    "/working/{session_id}/threads", response={201: WorkingThreadOut, **CHANGE_REFUSALS}, summary="Open a thread"
)
def working_threads_post(request: HttpRequest, session_id: str, payload: WorkingThreadIn, agent: AgentSlug = "") -> Any:
    """Record an open thread, such as a question to return to. Answers 409 when 50 are open already."""
    _, thread = working_thread_open(**agent_arguments(request, agent, CHANGE), session_id=session_id, **payload.dict())
    return Status(201, {"thread": thread})


@router.delete("/working/{session_id}/threads/{thread_id}", response={204: None, **REFUSALS}, summary="Close a thread")
def working_thread_delete(
    request: HttpRequest, session_id: str, thread_id: str, agent: AgentSlug = "", user: UserKey = ""
) -> Any:
    """Remove a thread that is finished. Answers 404 when it is not open."""
    working_thread_close(
        **agent_arguments(request, agent, CHANGE), session_id=session_id, thread_id=thread_id, user=user
    )
    return Status(204, None)
