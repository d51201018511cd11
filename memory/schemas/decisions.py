"""Schemas of the API of decisions."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from memory.policy import MAX_REASONS
from memory.schemas.memories import MemoryIn, MemoryOut, MemoryPatch
from memory.schemas.types import (
    Content,
    DecisionOutcome,
    RemarkEntry,
    RequiredContent,
    Stakes,
)
from nousweb.lib.constrained_types import OptionalWord, ProjectKey, TaskKey, UnitInterval
from nousweb.lib.schemas import Input, fields_of, optional


class DecisionIn(MemoryIn):
    description: RequiredContent = Field(description="The decision")
    context: Content = Field("", description="Situation of the decision")
    category: OptionalWord = ""
    confidence: UnitInterval = 0.5
    stakes: Stakes = "medium"
    reasons: Annotated[list[RemarkEntry], Field(max_length=MAX_REASONS)] = []
    project: ProjectKey | None = Field(  # type: ignore[assignment]
        None, description="Your key of the project; by default the episode's"
    )
    task: TaskKey | None = Field(  # type: ignore[assignment]
        None, description="Your key of the task; by default the episode's"
    )
    episode: UUID | None = Field(None, description="Episode of the decision")


@fields_of(DecisionIn, "category", patch=True)
class DecisionPatch(MemoryPatch):
    """Fields that are left out stay as they are."""

    active: bool = optional("Whether search and prompts may include it")


class DecisionReviewIn(Input):
    outcome: DecisionOutcome
    note: Content = ""


class DecisionOut(MemoryOut):
    description: str
    context: str
    category: str
    confidence: UnitInterval
    stakes: Stakes
    reasons: list[str]
    episode: UUID | None = Field(None, alias="episode_id")
    outcome: DecisionOutcome
    outcome_note: str
    reviewed_at: datetime | None
    reviewed_by: str
    created_at: datetime
    updated_at: datetime
