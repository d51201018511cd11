"""Request and response schemas of the API of expectations."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from context.api.schemas import ContextIn
from context.expectations import policy
from context.expectations.services import result_of, state_of
from context.models import Expectation, ExpectationResult
from memory.api.common import PersonaName
from memory.models import ItemType
from memory.policy import MAX_SESSION_CHARACTERS
from nousweb.lib.constrained_types import NextCursor, OneOf, text
from nousweb.lib.schemas import Input, optional

RequirementName = Annotated[str, OneOf(*Expectation.Requirement.values)]
TargetName = Annotated[str, OneOf(*Expectation.Target.values)]
StateName = Literal["passed", "failed", "error", "unchecked"]
TotalState = Literal["passed", "failed", "error"]
MemoryType = Annotated[str, OneOf("", *ItemType.values)]
SectionName = Annotated[str, OneOf("", *policy.SECTIONS)]
Reason = Annotated[str, text(policy.MAX_REASON_CHARACTERS)]
Text = Annotated[str, Field(max_length=policy.MAX_TEXT_CHARACTERS)]
ItemId = Annotated[str, Field(max_length=36)]


class QuestionIn(ContextIn):
    session_id: str = Field(
        policy.SESSION,
        min_length=1,
        max_length=MAX_SESSION_CHARACTERS,
        description="Session whose working memory is used",
    )


class ExpectationIn(Input):
    """A question and what its prompt must be like. Of `item_type` with `item_id`, `text` and `section` those are
    given that the `target` names."""

    request: QuestionIn | None = Field(None, description="Request; alternative to `run`")
    run: UUID | None = Field(None, description="A logged run whose request is used, with all of its fields")
    requirement: RequirementName
    target: TargetName
    item_type: MemoryType = ""
    item_id: ItemId = ""
    text: Text = ""
    section: SectionName = Field("", description="A section of the prompt, or `identity.` and one of the identity")
    reason: Reason = Field("", description="Reason for the expectation")
    persona: PersonaName = "actor"


class ExpectationPatch(Input):
    """Fields that are left out stay as they are. A change of anything but the reason begins a new revision."""

    request: QuestionIn = optional()
    requirement: RequirementName = optional()
    target: TargetName = optional()
    item_type: MemoryType = optional()
    item_id: ItemId = optional()
    text: Text = optional()
    section: SectionName = optional()
    reason: Reason = optional()
    active: bool = optional("false retires it, true restores it")
    base_revision: Annotated[int, Field(ge=1, le=2_000_000_000)] | None = Field(
        None, description="Refused with 409 when another revision is current"
    )


class CauseOut(Schema):
    """The change that led to a state, or the reason why none is named."""

    change: str = Field("", description="Id in the change feed; empty if the change is not in the feed")
    kind: str = ""
    object_type: str = ""
    object_id: str = ""
    at: datetime | None = None
    by: str = Field("", description="Author, as in the audit trail")
    by_kind: str = ""
    among: int = Field(0, description="Changes between the last check in the other state and this one")
    note: str = Field(
        "",
        description="Why no change is named; empty if one is named. A session's earlier working memory is not kept, so"
        " such a change is named only if no other change is possible",
    )


class ResultOut(Schema):
    state: Literal["passed", "failed", "error"]
    code: str = Field(description="Reason as a code")
    detail: str = Field(description="Reason as a sentence, without any text of a memory")
    since: datetime = Field(description="Time of the first check with this result")
    checked_at: datetime = Field(description="Time of the last check")
    checks: int
    cause: CauseOut | None = Field(description="Change that led to it; null if the state has never changed")

    @staticmethod
    def resolve_cause(result: ExpectationResult) -> Any:
        return result.cause or None


class ExpectationOut(Schema):
    id: UUID
    persona: PersonaName
    request: dict[str, Any] = Field(description="Request of the expectation")
    requirement: RequirementName
    target: TargetName
    item_type: str
    item_id: str
    text: str
    section: str
    reason: str
    active: bool
    revision: int
    author_name: str
    created_at: datetime
    updated_at: datetime
    state: StateName
    result: ResultOut | None = Field(description="Latest result; null before the first check")

    @staticmethod
    def resolve_state(expectation: Expectation) -> str:
        return state_of(expectation) or "unchecked"

    @staticmethod
    def resolve_result(expectation: Expectation) -> ExpectationResult | None:
        return result_of(expectation)


class ExpectationPage(Schema):
    items: list[ExpectationOut]
    next: NextCursor


class RunIn(Input):
    ids: list[UUID] | None = Field(
        None, max_length=policy.MAX_ACTIVE, description="Only these expectations; all active ones by default"
    )
    persona: PersonaName | None = Field(None, description="Only expectations of this persona")


class ExpectationRunOut(Schema):
    state: TotalState = Field(description="passed only if there is at least one and each was checked and passed")
    total: int
    passed: int
    failed: int
    errors: int = Field(description="Number that could not run")
    items: list[ExpectationOut]


class ResultsOut(Schema):
    items: list[ResultOut] = Field(description="The latest first, at most 200")
