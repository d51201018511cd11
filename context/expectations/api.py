"""The API of expectations: people write them, tokens with the scope read them and request checks."""

from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Router, Status

from context.expectations.policy import ADD, CHANGE
from context.expectations.schemas import (
    ExpectationIn,
    ExpectationOut,
    ExpectationPatch,
    ExpectationRunOut,
    ResultsOut,
    RunIn,
)
from context.expectations.services import (
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
)
from context.models import Expectation
from context.selectors import run_get
from identity.principal import Principal
from identity.selectors import agent_called
from nousweb.lib import Invalid
from nousweb.lib.constrained_types import AgentSlug, PageCursor, PageLimit
from nousweb.lib.keyset_page import keyset_page
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, page_of

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
