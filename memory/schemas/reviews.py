"""Schemas of the API of reviews of memories, and of jobs."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Field

from memory.schemas.facts import FactOut
from memory.schemas.types import Content, JobStatus, PersonaName, Remark, ReviewKind, ReviewStatus
from nousweb.lib.constrained_types import NextCursor
from nousweb.lib.schemas import Input, fields_of


class ReviewReasonOut(Schema):
    code: str
    words: str
    old: str = ""
    new: str = ""


@fields_of(
    FactOut,
    "id",
    "content",
    "subject",
    "category",
    "project",
    "task",
    "confidence",
    "source",
    "recorded_at",
    "valid_from",
    "valid_until",
)
class ReviewFactOut(Schema):
    active: bool


class ReviewOut(Schema):
    id: UUID
    persona: PersonaName
    kind: ReviewKind
    status: ReviewStatus
    subject: str
    old: ReviewFactOut | None = Field(None, description="The older fact")
    new: ReviewFactOut | None = Field(None, description="The newer fact, or the only fact of the review")
    censor: UUID | None = Field(None, alias="censor_id")
    facts: list[UUID] = Field(
        [],
        description="Facts of a compaction or with values of one attribute, or the fact that was invalidated or is "
        "known about another subject",
    )
    subjects: list[UUID] = Field([], description="The two subjects that may be the same, the older first")
    score: float | None = Field(description="Cosine of the pair, or the confidence of a single fact")
    reasons: list[ReviewReasonOut] = Field([], description="Differences between the two, most important first")
    verdict: dict[str, Any] = Field({}, description="The judge's verdict, if it was asked")
    proposal: str = ""
    resolution: str
    comment: str
    resolver_name: str
    resolved_at: datetime | None
    created_at: datetime
    expires_at: datetime


class ReviewResolveIn(Input):
    resolution: str = Field(
        description="same, replace, old_wrong, new_wrong, both or merge of a pair; keep or reverse of a censor; same, "
        "both or new_wrong of a sentence about another subject; same or different of two subjects; allow or hold "
        "of a quarantined text; replace (one value at a time) or both (several) of an attribute"
    )
    comment: Remark = ""
    content: Content = Field("", description="Text for a merge")


class RunOut(Schema):
    id: str = Field(alias="key", description="Event that it reacts to, once")
    handler: str
    persona: PersonaName
    subject_type: str
    subject_id: str
    status: JobStatus
    attempts: int
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    next_attempt_at: datetime
    duration_ms: int | None
    tokens: int
    result: dict[str, Any]
    error: str


class LifecycleOut(Schema):
    counts: dict[str, int] = Field(description="Jobs by status")
    waiting: int = Field(description="Pending reviews")
    items: list[RunOut]
    next: NextCursor
