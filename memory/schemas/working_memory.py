"""Schemas of the API of working memory."""

from datetime import datetime
from typing import Annotated

from ninja import Schema
from pydantic import Field

from memory.models import WorkingMemory
from memory.policy import MAX_FRAME_CHARACTERS, MAX_THREAD_CHARACTERS, MAX_WORKING_ITEMS
from memory.schemas.types import PersonaName, Remark, RequiredRemark
from nousweb.lib.constrained_types import OptionalWord, ProjectKey, TaskKey, UnitInterval, Word, text
from nousweb.lib.schemas import Input


class WorkingIn(Input):
    task: Remark = Field("", description="Task of the session")
    frame: Annotated[OptionalWord, text(MAX_FRAME_CHARACTERS)] = Field(
        "", description="Frame of the session's prompts if a request names none; unknown words are shown unchanged"
    )
    project: ProjectKey = ""
    task_key: TaskKey = ""
    capacity: int = Field(20, ge=1, le=MAX_WORKING_ITEMS, description="Maximum number of items")


class WorkingItemIn(Input):
    text: RequiredRemark
    type: Word = "note"
    relevance: UnitInterval = Field(0.5, description="The least relevant items are removed first")


class WorkingThreadIn(Input):
    text: Annotated[str, text(MAX_THREAD_CHARACTERS, min_length=1)]


class WorkingItem(Schema):
    id: str
    type: str
    text: str
    relevance: UnitInterval
    added_at: datetime


class WorkingThread(Schema):
    id: str
    text: str
    added_at: datetime


class WorkingOut(Schema):
    session_id: str
    persona: PersonaName
    task: str
    project: str
    task_key: str
    frame: str
    capacity: int
    items: list[WorkingItem] = Field(description="In order of arrival")
    open_threads: list[WorkingThread]
    held: int = Field(description="Texts that are quarantined until a person allows them")
    created_at: datetime
    updated_at: datetime

    @staticmethod
    def resolve_held(working: WorkingMemory) -> int:
        return len(working.held_entries)


class WorkingSetOut(Schema):
    working: WorkingOut
    evicted: list[WorkingItem] = Field(description="Items beyond the capacity")


class WorkingItemOut(Schema):
    item: WorkingItem
    evicted: list[WorkingItem] = Field(description="Items removed to make room; this may be the new item itself")


class WorkingThreadOut(Schema):
    thread: WorkingThread
