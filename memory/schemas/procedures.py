"""What the API of procedures takes and gives."""

from datetime import datetime
from uuid import UUID

from ninja import Schema
from pydantic import Field

from nousweb.lib.schemas import Input


class ProcedureIn(Input):
    name: str
    domain: str = ""
    description: str = Field("", description="What it is for and when to use it")
    steps: list[str] = []
    tags: list[str] = []
    scope: str = Field("global", description="task, project or global")
    importance: float = Field(0.5, description="0 to 1")


class ProcedurePatch(Input):
    """Fields that are left out stay as they are."""

    name: str = ""
    domain: str = ""
    description: str = ""
    steps: list[str] = []
    tags: list[str] = []
    scope: str = ""
    importance: float = Field(0.5, description="0 to 1")
    active: bool = Field(True, description="Whether search and prompts may show it")


class ProcedureReportIn(Input):
    success: bool = Field(strict=True)
    note: str = ""


class ProcedureOut(Schema):
    id: UUID
    persona: str
    name: str
    domain: str
    description: str
    steps: list[str]
    tags: list[str]
    scope: str
    importance: float
    active: bool
    activation_count: int
    success_count: int
    failure_count: int
    effectiveness: float | None = Field(description="Share of successes among the known ends, null before the first")
    last_activated_at: datetime | None
    created_at: datetime
    updated_at: datetime


class ProcedurePage(Schema):
    items: list[ProcedureOut]
    next: str | None = Field(description="Pass as `cursor` for the next page; null on the last")
