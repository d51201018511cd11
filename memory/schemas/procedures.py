"""Schemas of the API of procedures."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from memory.policy import MAX_NAME_CHARACTERS, MAX_STEPS
from memory.schemas.memories import MemoryIn, MemoryOut, MemoryPatch
from memory.schemas.types import Content, Remark, RemarkEntry
from nousweb.lib.constrained_types import OptionalWord, UnitInterval, text
from nousweb.lib.schemas import Input, fields_of, optional

Name = Annotated[str, text(MAX_NAME_CHARACTERS, min_length=1)]
Steps = Annotated[list[RemarkEntry], Field(max_length=MAX_STEPS)]


class ProcedureIn(MemoryIn):
    name: Name
    domain: OptionalWord = ""
    description: Content = Field("", description="Purpose, and when to use it")
    steps: Steps = []


@fields_of(ProcedureIn, "name", "domain", "description", "steps", patch=True)
class ProcedurePatch(MemoryPatch):
    """Fields that are left out stay as they are."""

    active: bool = optional("Whether search and prompts may include it")


class ProcedureReportIn(Input):
    success: bool = Field(strict=True)
    note: Remark = ""


class ProcedureOut(MemoryOut):
    name: str
    domain: str
    description: str
    steps: list[str]
    activation_count: int
    success_count: int
    failure_count: int
    effectiveness: UnitInterval | None = Field(
        description="Share of successes among the known outcomes; null before the first outcome"
    )
    last_activated_at: datetime | None
    created_at: datetime
    updated_at: datetime
