"""What the memory API takes and gives."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, Field

from memory.policy import DEFAULT_CATEGORY
from nousweb.lib.schemas import Input


class FactIn(Input):
    content: str = Field(description="What is believed, as one sentence")
    subject: str = Field("", description="Whom or what it is about")
    category: str = Field(
        DEFAULT_CATEGORY,
        description="person, preference and rule are always in the prompt; others are searched",
    )
    kind: str = ""
    scope: str = Field("global", description="task, project or global")
    tags: list[str] = []
    confidence: float = Field(1.0, description="0 to 1")
    importance: float = Field(0.5, description="0 to 1")
    source: str = ""
    valid_from: AwareDatetime | None = Field(None, description="Since when it is true in the world")
    valid_until: AwareDatetime | None = Field(None, description="Until when it is true in the world")


class FactOut(Schema):
    id: UUID
    persona: str
    content: str
    subject: str
    category: str
    kind: str
    scope: str
    tags: list[str]
    confidence: float
    importance: float
    source: str
    active: bool
    confirmation_count: int
    last_confirmed_at: datetime | None
    superseded_by: UUID | None = Field(None, alias="superseded_by_id")
    valid_from: datetime | None
    valid_until: datetime | None
    recorded_at: datetime
    retired_at: datetime | None


class LearnOut(Schema):
    action: Literal["stored"]
    fact: FactOut


class FactPage(Schema):
    items: list[FactOut]
    next: str | None = Field(description="Pass as `cursor` for the next page; null on the last")
