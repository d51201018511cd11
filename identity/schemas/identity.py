"""Request and response schemas of the identity API."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from identity.models import ChangeProposal, IdentityVersion
from identity.policy.sections import MAX_REASON_CHARACTERS, MAX_SECTION_CHARACTERS, Section
from nousweb.lib.constrained_types import OneOf, text
from nousweb.lib.lookalikes import warnings_of
from nousweb.lib.schemas import Derived, Input, Problem

Reason = Annotated[str, text(MAX_REASON_CHARACTERS)]
SectionName = Annotated[str, OneOf(*Section.values)]


class IdentitySectionOut(Derived, of=IdentityVersion, fields="section version content"):
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


class VersionOut(
    Derived,
    of=IdentityVersion,
    fields="section version content is_current created_at author_kind author_name reason",
):
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


class ProposalOut(
    Derived,
    of=ChangeProposal,
    fields="id agent section status risk guardrail base_version content reason author_kind author_name reviewer_name"
    " comment edited created_at decided_at expires_at version",
):
    agent: str
    guardrail: str = Field(description="Why it is pending or was applied, in words")
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


class YourText(Schema):
    content: str


class TextAt(YourText):
    version: int


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
