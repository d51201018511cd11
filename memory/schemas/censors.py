"""What the API of censors takes and gives."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from nousweb.lib.schemas import Input


class CensorIn(Input):
    pattern: str = Field(description="A regular expression (RE2, case ignored), or what is meant in words")
    match: str = Field("regex", description="regex or semantic")
    severity: str = Field("warn", description="warn, block or, by a person, absolute")
    reason: str = Field("", description="Why; shown with every match")
    domain: str = Field("", description="Left out of checks that name another domain")
    similarity_threshold: float | None = Field(None, description="Least cosine of a semantic match, above 0 to 1")
    escalation_threshold: int = Field(5, description="Activations after which a warning becomes a block, 1 to 1,000")


class CensorPatch(Input):
    """Fields that are left out stay as they are."""

    pattern: str = ""
    severity: str = ""
    reason: str = ""
    domain: str = ""
    similarity_threshold: float = 0.0
    escalation_threshold: int = 5
    active: bool = True
    message: str = Field("", description="Why it is changed; kept in the audit trail")


class CensorFalsePositiveIn(Input):
    message: str = ""


class CensorOut(Schema):
    id: UUID
    persona: str
    pattern: str
    match: str
    similarity_threshold: float
    severity: str
    domain: str
    reason: str
    active: bool
    escalation_threshold: int
    activation_count: int
    false_positive_count: int
    last_activated_at: datetime | None
    author_kind: str
    author_name: str
    created_at: datetime
    updated_at: datetime


class CensorPage(Schema):
    items: list[CensorOut]
    next: str | None = Field(description="Pass as `cursor` for the next page; null on the last")


class CensorCheckIn(Input):
    text: str
    dry: bool = Field(False, description="Only look: count no activation")
    domain: str = Field("", description="Leave out the censors of other domains")


class CensorSpanOut(Schema):
    start: int
    end: int


class CensorMatchOut(Schema):
    id: UUID
    severity: str
    reason: str
    domain: str
    match: str
    pattern: str
    why: str
    spans: list[CensorSpanOut] = Field(description="Characters of the text, at most 20 places")
    more: bool = Field(description="Whether it matches in further places")
    similarity: float | None = Field(description="Best cosine of a semantic match")


class CensorTimedOutOut(Schema):
    id: UUID
    severity: str
    why: str
    blocks: bool = Field(description="Whether it keeps the text back: it is a censor of people or the product")


class CensorCheckOut(Schema):
    verdict: Literal["allow", "warn", "block"]
    reason: str = Field(description="Which censors keep the text back because they could not be checked; else empty")
    matches: list[CensorMatchOut] = Field(description="Strictest first")
    timed_out: list[CensorTimedOutOut] = Field(
        description="Censors that were not wholly checked: those of people block the text, the others count as no match"
    )
