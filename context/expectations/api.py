"""The API of expectations: people write them, tokens with the scope read them and request checks."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Router, Schema, Status
from pydantic import Field

from context.api import ContextIn
from context.expectations import policy
from context.expectations.policy import ADD, CHANGE
from context.expectations.services import (
    ExpectationTotals,
    expectation_create,
    expectation_get,
    expectation_restore,
    expectation_retire,
    expectation_totals,
    expectation_update,
    expectations_of,
    expectations_verify,
    in_state,
    request_of_run,
    result_of,
    state_of,
)
from context.models import Expectation, ExpectationResult
from context.selectors import run_get
from identity.principal import Principal
from identity.selectors import agent_called
from memory.api.common import PersonaName
from memory.models import ItemType
from memory.policy import MAX_SESSION_CHARACTERS
from nousweb.lib import Invalid
from nousweb.lib.constrained_types import AgentSlug, OneOf, PageCursor, PageLimit, text
from nousweb.lib.keyset_page import keyset_page
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Derived, Input, optional, page_of

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


class ExpectationRunOut(Derived, of=ExpectationTotals, fields="state total passed failed errors items"):
    state: Literal["passed", "failed", "error"] = Field(
        description="passed only if there is at least one and each was checked and passed"
    )
    total: int
    errors: int = Field(description="Number that could not run")
    items: list[ExpectationOut]


class ResultsOut(Schema):
    items: list[ResultOut] = Field(description="The latest first, at most 200")


router = Router(tags=["expectations"])

MAX_RESULTS = 200


@router.get("/expectations", response={200: page_of(ExpectationOut), **REFUSALS}, summary="List expectations")
def expectations_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    state: Literal["", "passed", "failed", "error", "unchecked"] = "",
    persona: Literal["", "actor", "subconscious"] = "",
    active: Literal["true", "false", "all"] = "true",
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Expectations of an agent that the caller may see, each with its last result, latest first."""
    rows = expectations_of(*agent_called(request, agent))
    if active != "all":
        rows = rows.filter(active=active == "true")
    if persona:
        rows = rows.filter(persona=persona)
    if state:
        rows = in_state(rows, state)
    page = keyset_page(rows, moment="created_at", size=limit, after=cursor)
    return {"items": page.rows, "next": page.next or None}


@router.post(
    "/expectations", response={201: ExpectationOut, **CHANGE_REFUSALS}, summary="Write an expectation (people)"
)
def expectations_post(request: HttpRequest, payload: ExpectationIn, agent: AgentSlug = "") -> Any:
    """A test of the agent's memory, checked at once; the answer has its first result. No token can do this."""
    found, by = agent_called(request, agent, ADD)
    given = payload.dict(exclude={"request", "run"})
    if payload.run is not None and payload.request is None:
        asked = request_of_run(run_get(found, by, payload.run), payload.persona)
    elif payload.request is not None and payload.run is None:
        asked = payload.request.as_request()
    else:
        raise Invalid("Give either the request or a run.", field="request")
    row = expectation_create(agent=found, by=by, request=asked, **given)
    return Status(201, _checked(row, by))


@router.post("/expectations/run", response={200: ExpectationRunOut, **REFUSALS}, summary="Check expectations now")
def expectations_run_post(request: HttpRequest, payload: RunIn, agent: AgentSlug = "") -> Any:
    """Checks expectations with current prompts, stores the results, and returns the totals.

    `state` is `passed` only if there are any and each was checked and passed: a pipeline should stop otherwise.
    """
    called, by = agent_called(request, agent)
    found = expectations_verify(agent=called, by=by, ids=payload.ids, persona=payload.persona)
    totals = expectation_totals(found)
    return {
        "state": totals.state,
        "total": totals.total,
        "passed": totals.passed,
        "failed": totals.failed,
        "errors": totals.errors + totals.unchecked,
        "items": found,
    }


@router.get("/expectations/{expectation_id}", response={200: ExpectationOut, **REFUSALS}, summary="One expectation")
def expectation_read(request: HttpRequest, expectation_id: UUID, agent: AgentSlug = "") -> Any:
    """One expectation with its last result."""
    return expectation_get(*agent_called(request, agent), expectation_id)


@router.get(
    "/expectations/{expectation_id}/results", response={200: ResultsOut, **REFUSALS}, summary="How its checks went"
)
def expectation_results(request: HttpRequest, expectation_id: UUID, agent: AgentSlug = "") -> Any:
    """One row per period with the same result of its checks, with the change that led to it."""
    row = expectation_get(*agent_called(request, agent), expectation_id)
    return {"items": list(row.results.order_by("-since", "-id")[:MAX_RESULTS])}


@router.patch(
    "/expectations/{expectation_id}",
    response={200: ExpectationOut, **CHANGE_REFUSALS},
    summary="Change an expectation (people)",
)
def expectation_patch(
    request: HttpRequest, expectation_id: UUID, payload: ExpectationPatch, agent: AgentSlug = ""
) -> Any:
    """Changes the given fields, and checks it again. No token can do this."""
    found, by = agent_called(request, agent, CHANGE)
    row = expectation_get(found, by, expectation_id)
    given = payload.dict(exclude_unset=True, exclude={"base_revision", "active", "request"})
    if payload.request is not None:
        given["request"] = payload.request.as_request()
    if given or payload.base_revision is not None:
        row = expectation_update(expectation=row, by=by, base_revision=payload.base_revision, **given)
    if payload.active is not None:
        change = expectation_restore if payload.active else expectation_retire
        row = change(expectation=row, by=by)
    return _checked(row, by)


@router.delete(
    "/expectations/{expectation_id}", response={204: None, **CHANGE_REFUSALS}, summary="Retire an expectation (people)"
)
def expectation_delete(request: HttpRequest, expectation_id: UUID, agent: AgentSlug = "") -> Any:
    """Retires it: it is no longer checked. It stays with its results, and can be restored."""
    found, by = agent_called(request, agent, CHANGE)
    expectation_retire(expectation=expectation_get(found, by, expectation_id), by=by)
    return Status(204, None)


def _checked(row: Expectation, by: Principal) -> Expectation:
    """The expectation after a check of this moment, where it is active."""
    if row.active:
        expectations_verify(agent=row.agent, by=by, ids=[row.pk])
    return expectation_get(row.agent, by, row.pk)
