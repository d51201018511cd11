"""Schemas of the API of procedures."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from ninja import Schema
from pydantic import Field

from memory.policy.size_limits import MAX_NAME_CHARACTERS, MAX_STEPS
from memory.schemas.types import Content, PersonaName, Quarantined, Remark, RemarkEntry, ScopeName, Tags, TrustName
from nousweb.lib.constrained_types import NextCursor, OptionalWord, ProjectKey, TaskKey, UnitInterval, text
from nousweb.lib.schemas import Input, optional

Name = Annotated[str, text(MAX_NAME_CHARACTERS, min_length=1)]
Steps = Annotated[list[RemarkEntry], Field(max_length=MAX_STEPS)]


class ProcedureIn(Input):
    name: Name
    domain: OptionalWord = ""
    description: Content = Field("", description="Purpose, and when to use it")
    steps: Steps = []
    tags: Tags = []
    scope: ScopeName = "global"
    project: ProjectKey = ""
    task: TaskKey = ""
    importance: UnitInterval = 0.5


class ProcedurePatch(Input):
    """Fields that are left out stay as they are."""

    name: Name = optional()
    domain: OptionalWord = optional()
    description: Content = optional()
    steps: Steps = optional()
    tags: Tags = optional()
    scope: ScopeName = optional()
    project: ProjectKey = optional("Moves it to this one; empty for none")
    task: TaskKey = optional("Moves it to this one; empty for none")
    importance: UnitInterval = optional()
    active: bool = optional("Whether search and prompts may include it")


class ProcedureReportIn(Input):
    success: bool = Field(strict=True)
    note: Remark = ""


class ProcedureOut(Schema):
    id: UUID
    persona: PersonaName
    name: str
    domain: str
    description: str
    steps: list[str]
    tags: list[str]
    scope: ScopeName
    project: str
    task: str
    importance: UnitInterval
    trust: TrustName
    held: Quarantined
    active: bool
    activation_count: int
    success_count: int
    failure_count: int
    effectiveness: UnitInterval | None = Field(
        description="Share of successes among the known outcomes; null before the first outcome"
    )
    last_activated_at: datetime | None
    created_at: datetime
    updated_at: datetime


class ProcedurePage(Schema):
    items: list[ProcedureOut]
    next: NextCursor
