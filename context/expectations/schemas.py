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
from nousweb.lib.constrained_types import OneOf, text
from nousweb.lib.schemas import Derived, Input, optional

Reason = Annotated[str, text(policy.MAX_REASON_CHARACTERS)]


class QuestionIn(ContextIn):
    session_id: str = Field(
        policy.SESSION,
        min_length=1,
        max_length=MAX_SESSION_CHARACTERS,
        description="Session whose working memory is used",
    )


class ExpectationIn(
    Input, of=Expectation, fields="request run requirement target item_type item_id text section reason persona"
):
    """A question and what its prompt must be like. Of `item_type` with `item_id`, `text` and `section` those are
    given that the `target` names."""

    request: QuestionIn | None = Field(None, description="Request; alternative to `run`")
    run: UUID | None = Field(None, description="A logged run whose request is used, with all of its fields")
    item_type: Annotated[str, OneOf("", *ItemType.values)] = ""
    item_id: Annotated[str, Field(max_length=36)] = ""
    text: Annotated[str, Field(max_length=policy.MAX_TEXT_CHARACTERS)] = ""
    section: Annotated[str, OneOf("", *policy.SECTIONS)] = Field(
        "", description="A section of the prompt, or `identity.` and one of the identity"
    )
    reason: Reason = Field("", description="Reason for the expectation")
    persona: PersonaName = "actor"


class ExpectationPatch(
    Input,
    of=ExpectationIn,
    fields="request requirement target item_type item_id text section reason",
    patch=True,
):
    """Fields that are left out stay as they are. A change of anything but the reason begins a new revision."""

    request: QuestionIn = optional()
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


class ResultOut(Derived, of=ExpectationResult, fields="state code detail since checked_at checks cause"):
    code: str = Field(description="Reason as a code")
    detail: str = Field(description="Reason as a sentence, without any text of a memory")
    since: datetime = Field(description="Time of the first check with this result")
    checked_at: datetime = Field(description="Time of the last check")
    cause: CauseOut | None = Field(description="Change that led to it; null if the state has never changed")

    @staticmethod
    def resolve_cause(result: ExpectationResult) -> Any:
        return result.cause or None


class ExpectationOut(
    Derived,
    of=Expectation,
    fields="id persona request requirement target item_type item_id text section reason active revision author_name"
    " created_at updated_at",
):
    request: dict[str, Any] = Field(description="Request of the expectation")
    state: Literal["passed", "failed", "error", "unchecked"]
    result: ResultOut | None = Field(description="Latest result; null before the first check")

    @staticmethod
    def resolve_state(expectation: Expectation) -> str:
        return state_of(expectation) or "unchecked"

    @staticmethod
    def resolve_result(expectation: Expectation) -> ExpectationResult | None:
        return result_of(expectation)


class RunIn(Input):
    ids: list[UUID] | None = Field(
        None, max_length=policy.MAX_ACTIVE, description="Only these expectations; all active ones by default"
    )
    persona: PersonaName | None = Field(None, description="Only expectations of this persona")


class ExpectationRunOut(Schema):
    state: Literal["passed", "failed", "error"] = Field(
        description="passed only if there is at least one and each was checked and passed"
    )
    total: int
    passed: int
    failed: int
    errors: int = Field(description="Number that could not run")
    items: list[ExpectationOut]


class ResultsOut(Schema):
    items: list[ResultOut] = Field(description="The latest first, at most 200")
