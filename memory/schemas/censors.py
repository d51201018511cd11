"""Schemas of the API of censors."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from memory.policy import MAX_DETAIL_CHARACTERS, MAX_ESCALATION_THRESHOLD, MAX_PATTERN_CHARACTERS
from memory.schemas.types import CensorMatch, PersonaName, Quarantined, Remark, Severity, TrustName
from nousweb.lib.constrained_types import OptionalWord
from nousweb.lib.schemas import Input, fields_of, optional

# The service says what is wrong with one, and what would do instead.
Pattern = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_PATTERN_CHARACTERS})]
Threshold = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Escalation = Annotated[int, Field(ge=1, le=MAX_ESCALATION_THRESHOLD)]


class CensorIn(Input):
    pattern: Pattern = Field(description="A regular expression (RE2, ignoring case), or a meaning in words")
    match: CensorMatch = "regex"
    severity: Severity = Field("warn", description="Only a person can set absolute")
    reason: Remark = Field("", description="Reason; shown with every match")
    domain: OptionalWord = Field("", description="Checks for another domain ignore it")
    similarity_threshold: Threshold | None = Field(None, description="Minimum cosine of a semantic match")
    escalation_threshold: Escalation = Field(5, description="Activations after which a warning becomes a block")


@fields_of(CensorIn, "pattern", "severity", "reason", "domain", "escalation_threshold", patch=True)
class CensorPatch(Input):
    """Fields that are left out stay as they are."""

    similarity_threshold: Threshold = optional()
    active: bool = optional("Whether it is checked")
    message: Remark = Field("", description="Reason for the change; kept in the audit trail")


class CensorFalsePositiveIn(Input):
    message: Remark = ""


class CensorOut(Schema):
    id: UUID
    persona: PersonaName
    pattern: str
    match: CensorMatch
    similarity_threshold: float
    severity: Severity
    domain: str
    reason: str
    trust: TrustName
    held: Quarantined
    active: bool
    escalation_threshold: int
    activation_count: int
    false_positive_count: int
    last_activated_at: datetime | None
    author_kind: str
    author_name: str
    created_at: datetime
    updated_at: datetime


class CensorCheckIn(Input):
    text: Annotated[str, Field(max_length=MAX_DETAIL_CHARACTERS)]
    dry: bool = Field(False, description="Check only, without counting activations")
    domain: OptionalWord = Field("", description="Ignore the censors of other domains")


class CensorSpanOut(Schema):
    start: int
    end: int


class CensorMatchOut(Schema):
    id: UUID
    severity: Severity
    reason: str
    domain: str
    match: CensorMatch
    pattern: str
    why: str
    spans: list[CensorSpanOut] = Field(description="Character ranges of the text, at most 20")
    more: bool = Field(description="Whether there are more matching places")
    similarity: float | None = Field(description="Best cosine of a semantic match")


class CensorTimedOutOut(Schema):
    id: UUID
    severity: Severity
    why: str
    blocks: bool = Field(description="Whether it blocks the text: it was made by a person or the product")


class CensorCheckOut(Schema):
    verdict: Literal["allow", "warn", "block"]
    reason: str = Field(description="Censors that block the text because they could not be checked; else empty")
    matches: list[CensorMatchOut] = Field(description="Strictest first")
    timed_out: list[CensorTimedOutOut] = Field(
        description="Censors that were not fully checked: those made by people block, others count as no match"
    )
