"""What the API of decisions takes and gives."""

from datetime import datetime
from uuid import UUID

from ninja import Schema
from pydantic import Field

from nousweb.lib.schemas import Input


class DecisionIn(Input):
    description: str = Field(description="What was decided")
    context: str = Field("", description="In what situation")
    category: str = ""
    confidence: float = Field(0.5, description="0 to 1")
    stakes: str = Field("medium", description="low, medium, high or critical")
    reasons: list[str] = []
    tags: list[str] = []
    scope: str = Field("global", description="task, project or global")
    importance: float = Field(0.5, description="0 to 1")
    episode: UUID | None = Field(None, description="The episode in which it was made")


class DecisionPatch(Input):
    """Fields that are left out stay as they are."""

    category: str = ""
    tags: list[str] = []
    scope: str = ""
    importance: float = Field(0.5, description="0 to 1")
    active: bool = Field(True, description="Whether search and prompts may show it")


class DecisionReviewIn(Input):
    outcome: str = Field(description="pending, success, partial or failure")
    note: str = ""


class DecisionOut(Schema):
    id: UUID
    persona: str
    description: str
    context: str
    category: str
    confidence: float
    stakes: str
    reasons: list[str]
    tags: list[str]
    scope: str
    importance: float
    episode: UUID | None = Field(None, alias="episode_id")
    outcome: str
    outcome_note: str
    reviewed_at: datetime | None
    reviewed_by: str
    active: bool
    created_at: datetime
    updated_at: datetime


class DecisionPage(Schema):
    items: list[DecisionOut]
    next: str | None = Field(description="Pass as `cursor` for the next page; null on the last")
