"""What the API of working memory takes and gives."""

from datetime import datetime

from ninja import Schema
from pydantic import Field

from nousweb.lib.schemas import Input


class WorkingIn(Input):
    task: str = Field("", description="What the session is about")
    frame: str = ""
    capacity: int = Field(20, description="Most items, 1 to 100")


class WorkingItemIn(Input):
    text: str
    type: str = "note"
    relevance: float = Field(0.5, description="0 to 1; the least relevant leave first")


class WorkingThreadIn(Input):
    text: str


class WorkingItem(Schema):
    id: str
    type: str
    text: str
    relevance: float
    added_at: datetime


class WorkingThread(Schema):
    id: str
    text: str
    added_at: datetime


class WorkingOut(Schema):
    session_id: str
    persona: str
    task: str
    frame: str
    capacity: int
    items: list[WorkingItem] = Field(description="In the order in which they came")
    open_threads: list[WorkingThread]
    created_at: datetime
    updated_at: datetime


class WorkingSetOut(Schema):
    working: WorkingOut
    evicted: list[WorkingItem] = Field(description="What was over the capacity")


class WorkingItemOut(Schema):
    item: WorkingItem
    evicted: list[WorkingItem] = Field(description="What had to leave for it; it may be the item itself")


class WorkingThreadOut(Schema):
    thread: WorkingThread
