"""Schemas of the API of decisions."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from ninja import Schema
from pydantic import Field

from memory.policy.size_limits import MAX_REASONS
from memory.schemas.types import (
    Content,
    DecisionOutcome,
    PersonaName,
    Quarantined,
    RemarkEntry,
    RequiredContent,
    ScopeName,
    Stakes,
    Tags,
    TrustName,
)
from nousweb.lib.constrained_types import NextCursor, OptionalWord, ProjectKey, TaskKey, UnitInterval
from nousweb.lib.schemas import Input, optional


class DecisionIn(Input):
    description: RequiredContent = Field(description="The decision")
    context: Content = Field("", description="Situation of the decision")
    category: OptionalWord = ""
    confidence: UnitInterval = 0.5
    stakes: Stakes = "medium"
    reasons: Annotated[list[RemarkEntry], Field(max_length=MAX_REASONS)] = []
    tags: Tags = []
    scope: ScopeName = "global"
    project: ProjectKey | None = Field(None, description="Your key of the project; by default the episode's")
    task: TaskKey | None = Field(None, description="Your key of the task; by default the episode's")
    importance: UnitInterval = 0.5
    episode: UUID | None = Field(None, description="Episode of the decision")


class DecisionPatch(Input):
    """Fields that are left out stay as they are."""

    category: OptionalWord = optional()
    tags: Tags = optional()
    scope: ScopeName = optional()
    project: ProjectKey = optional("Moves it to this one; empty for none")
    task: TaskKey = optional("Moves it to this one; empty for none")
    importance: UnitInterval = optional()
    active: bool = optional("Whether search and prompts may include it")


class DecisionReviewIn(Input):
    outcome: DecisionOutcome
    note: Content = ""


class DecisionOut(Schema):
    id: UUID
    persona: PersonaName
    description: str
    context: str
    category: str
    confidence: UnitInterval
    stakes: Stakes
    reasons: list[str]
    tags: list[str]
    scope: ScopeName
    project: str
    task: str
    importance: UnitInterval
    episode: UUID | None = Field(None, alias="episode_id")
    outcome: DecisionOutcome
    outcome_note: str
    reviewed_at: datetime | None
    reviewed_by: str
    trust: TrustName
    held: Quarantined
    active: bool
    created_at: datetime
    updated_at: datetime


class DecisionPage(Schema):
    items: list[DecisionOut]
    next: NextCursor
