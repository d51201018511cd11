"""Request and response schemas of the identity API."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from identity.models import ChangeProposal, IdentityVersion
from identity.policy.sections import MAX_REASON_CHARACTERS, MAX_SECTION_CHARACTERS, Risk, Section
from nousweb.lib.constrained_types import OneOf, text
from nousweb.lib.lookalikes import warnings_of
from nousweb.lib.schemas import Input, Problem

Reason = Annotated[str, text(MAX_REASON_CHARACTERS)]
SectionName = Annotated[str, OneOf(*Section.values)]


class IdentitySectionOut(Schema):
    section: SectionName
    version: int
    content: str
    tokens: int
    updated_at: datetime
    updated_by: str
    etag: str


class IdentityOut(Schema):
    agent: str
    initiation_state: str
    sections: dict[str, IdentitySectionOut] = Field(description="Current sections by name, in prompt order")
    prompt: str = Field(description="The sections rendered as a prompt")
    tokens: int = Field(description="Estimated tokens of the prompt")
    etag: str


class VersionOut(Schema):
    section: SectionName
    version: int
    content: str
    is_current: bool
    created_at: datetime
    author_kind: str
    author_name: str
    reason: str
    previous_version: int | None
    restores_version: int | None

    @staticmethod
    def resolve_previous_version(version: IdentityVersion) -> int | None:
        return version.previous.version if version.previous else None

    @staticmethod
    def resolve_restores_version(version: IdentityVersion) -> int | None:
        return version.restores.version if version.restores else None


class HistoryOut(Schema):
    items: list[VersionOut]
    next: int | None = Field(description="Pass as `before` for the next page; null on the last")


class DiffLine(Schema):
    kind: Literal["equal", "added", "removed", "changed"]
    old: str | None
    new: str | None


class DiffOut(Schema):
    section: SectionName
    from_version: int = Field(alias="from")
    to_version: int = Field(alias="to")
    added: int
    removed: int
    lines: list[DiffLine]


class ChangeIn(Input):
    content: str = Field(
        description="Complete new text of the section", json_schema_extra={"maxLength": MAX_SECTION_CHARACTERS}
    )
    reason: Reason = Field("", description="Reason; shown to the reviewer")
    base_version: Annotated[int, Field(ge=0, le=2_000_000_000, strict=True)] | None = Field(
        None, description="Version on which the edit is based, 0 for none; may be sent as If-Match instead"
    )
    mode: Literal["auto", "propose"] = Field(
        "auto",
        description="“propose” needs a person's decision even if the guardrails would apply the change",
    )


class TextWarningOut(Schema):
    code: Literal["look_alike", "mixed_direction", "hidden_character"]
    line: int = Field(description="Counted from 1")
    column: int = Field(description="Counted from 1")
    word: str = Field(description="The word with look-alike characters; empty for other codes")
    message: str


class ProposalOut(Schema):
    id: UUID
    agent: str
    section: SectionName
    status: Annotated[str, OneOf(*ChangeProposal.Status.values)]
    risk: Annotated[str, OneOf(*Risk.values)]
    guardrail: str = Field(description="Why it is pending or was applied, in words")
    base_version: int
    content: str
    reason: str
    author_kind: str
    author_name: str
    reviewer_name: str
    comment: str
    edited: bool
    created_at: datetime
    decided_at: datetime | None
    expires_at: datetime
    version: int | None = Field(description="Version that it became after it was applied")
    warnings: list[TextWarningOut] = Field(description="Characters that a reader may misread")

    @staticmethod
    def resolve_warnings(proposal: ChangeProposal) -> list[Any]:
        return list(warnings_of(proposal.content))

    @staticmethod
    def resolve_agent(proposal: ChangeProposal) -> str:
        return proposal.agent.slug

    @staticmethod
    def resolve_version(proposal: ChangeProposal) -> int | None:
        return proposal.version.version if proposal.version else None


class ChangeOut(Schema):
    action: Literal["applied", "proposed", "unchanged"]
    proposal: ProposalOut | None
    version: VersionOut | None
    repeated: bool = Field(False, description="The same text is already pending: `proposal` is that proposal")


class TextAt(Schema):
    version: int
    content: str


class YourText(Schema):
    content: str


class StaleBaseOut(Problem):
    section: SectionName
    base: TextAt
    current: TextAt
    yours: YourText


class ReinitiateIn(Input):
    reason: Reason = ""
    facts_from: str = Field(
        "", max_length=50, description="Slug of an agent whose facts about its user are used instead of its own"
    )


class ReinitiateOut(Schema):
    agent: str
    initiation_state: str
    written: dict[str, int] = Field(description="Sections that got a new version, with its number")
    proposed: dict[str, UUID] = Field(
        description="Sections whose new text is pending, with the proposal: all with four eyes, else those that read"
        " like an instruction to the agent"
    )
