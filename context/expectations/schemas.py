"""What the API of expectations takes and gives."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from context.api.schemas import ContextIn
from context.expectations import policy
from context.expectations.selectors import result_of, state_of
from context.models import Expectation, ExpectationResult
from identity.models import Agent
from identity.services.change_bodies import Bodies, BodyLoader
from memory.models import ItemType
from memory.policy import MAX_SESSION_CHARACTERS
from memory.schemas.types import PersonaName
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
        policy.SESSION, min_length=1, max_length=MAX_SESSION_CHARACTERS, description="Whose working memory counts"
    )


class ExpectationIn(Input):
    """A question and what its prompt must be like. Of `item_type` with `item_id`, `text` and `section` those are
    given that the `target` names."""

    request: QuestionIn | None = Field(None, description="The question; or `run`")
    run: UUID | None = Field(None, description="A logged run whose request is asked, with all that it said")
    requirement: RequirementName
    target: TargetName
    item_type: MemoryType = ""
    item_id: ItemId = ""
    text: Text = ""
    section: SectionName = Field("", description="A section of the prompt, or `identity.` and one of the identity")
    reason: Reason = Field("", description="Why it is expected")
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
    active: bool = optional("false retires it, true lets it be checked again")
    base_revision: Annotated[int, Field(ge=1, le=2_000_000_000)] | None = Field(
        None, description="Refused with 409 when another revision is current"
    )


class CauseOut(Schema):
    """The change that led to a state, or the reason why none is named."""

    change: str = Field("", description="Its id in the change feed; empty where it stands in none")
    kind: str = ""
    object_type: str = ""
    object_id: str = ""
    at: datetime | None = None
    by: str = Field("", description="Who did it, as the audit trail has it")
    by_kind: str = ""
    among: int = Field(0, description="Changes between the last check in the other state and this one")
    note: str = Field(
        "",
        description="Why no change is named; empty where one is. What an agent has in mind in a session is not kept, so"
        " such a change is named only where no other one can be meant",
    )


class ResultOut(Schema):
    state: Literal["passed", "failed", "error"]
    code: str = Field(description="Why, in a word")
    detail: str = Field(description="Why, in a sentence without any text of a memory")
    since: datetime = Field(description="Its first check that came to this")
    checked_at: datetime = Field(description="Its last")
    checks: int
    cause: CauseOut | None = Field(description="What led to it; null where it was never otherwise")

    @staticmethod
    def resolve_cause(result: ExpectationResult) -> Any:
        return result.cause or None


class ExpectationOut(Schema):
    id: UUID
    persona: PersonaName
    request: dict[str, Any] = Field(description="The question as it is asked")
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
    result: ResultOut | None = Field(description="The last; null before the first check")

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
    ids: list[UUID] | None = Field(None, max_length=policy.MAX_ACTIVE, description="Only these; all active without it")
    persona: PersonaName | None = Field(None, description="Only those of this persona")


class ExpectationRunOut(Schema):
    state: TotalState = Field(description="passed only where each of at least one has been checked and passed")
    total: int
    passed: int
    failed: int
    errors: int = Field(description="Those that could not run")
    items: list[ExpectationOut]


class ResultsOut(Schema):
    items: list[ResultOut] = Field(description="The latest first, at most 200")


def _bodies(agent: Agent, ids: Collection[str], personas: Sequence[str]) -> Bodies:
    rows = Expectation.objects.filter(agent=agent, persona__in=personas, pk__in=ids)
    return {str(row.pk): ExpectationOut.from_orm(row).model_dump(mode="json") for row in rows}


EXPECTATION_BODIES: dict[str, BodyLoader] = {"expectation": _bodies}
