"""Procedures over HTTP."""

from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Status

from memory.api.common import CHANGE_REFUSALS, REFUSALS, caller, keyset_page, row_of
from memory.schemas.procedures import ProcedureIn, ProcedureOut, ProcedurePage, ProcedurePatch, ProcedureReportIn
from memory.services.procedures import procedure_activate, procedure_create, procedure_report, procedure_update

router = Router()


@router.post("/procedures", response={201: ProcedureOut, **REFUSALS}, summary="Write down a procedure")
def procedures_post(request: HttpRequest, payload: ProcedureIn, agent: str = "") -> Any:
    found, by, _ = caller(request, agent, "memory.add_procedure")
    return Status(201, procedure_create(agent=found, by=by, **payload.dict()))


@router.get("/procedures", response={200: ProcedurePage, **REFUSALS}, summary="List procedures")
def procedures_get(
    request: HttpRequest,
    agent: str = "",
    q: str = Query("", max_length=200, description="Words in the name"),
    domain: str = "",
    tag: str = "",
    min_effectiveness: float | None = Query(None, ge=0, le=1, description="Leaves out those never reported on"),
    state: Literal["active", "retired", "all"] = "active",
    limit: int = Query(50, ge=1, le=200),
    cursor: str = "",
) -> Any:
    """Procedures of the token's persona, latest first."""
    _, _, memory = caller(request, agent, "memory.view_procedure")
    procedures = memory.procedures
    if q:
        procedures = procedures.filter(name__icontains=q)
    if domain:
        procedures = procedures.filter(domain=domain)
    if tag:
        procedures = procedures.filter(tags__contains=[tag])
    if min_effectiveness is not None:
        procedures = procedures.effective_from(min_effectiveness)
    if state != "all":
        procedures = procedures.filter(active=state == "active")
    return keyset_page(procedures, moment="created_at", limit=limit, cursor=cursor)


@router.get("/procedures/{procedure_id}", response={200: ProcedureOut, **REFUSALS}, summary="One procedure")
def procedure_get(request: HttpRequest, procedure_id: UUID, agent: str = "") -> Any:
    _, _, memory = caller(request, agent, "memory.view_procedure")
    return row_of(memory.procedures, procedure_id, "procedure")


@router.patch(
    "/procedures/{procedure_id}", response={200: ProcedureOut, **CHANGE_REFUSALS}, summary="Change a procedure"
)
def procedure_patch(request: HttpRequest, procedure_id: UUID, payload: ProcedurePatch, agent: str = "") -> Any:
    _, by, memory = caller(request, agent, "memory.change_procedure")
    procedure = row_of(memory.procedures, procedure_id, "procedure")
    return procedure_update(procedure=procedure, by=by, **payload.dict(exclude_unset=True))


@router.post(
    "/procedures/{procedure_id}/activate", response={200: ProcedureOut, **CHANGE_REFUSALS}, summary="Count one use"
)
def procedure_activate_post(request: HttpRequest, procedure_id: UUID, agent: str = "") -> Any:
    _, by, memory = caller(request, agent, "memory.change_procedure")
    procedure = row_of(memory.procedures, procedure_id, "procedure")
    return procedure_activate(procedure=procedure, by=by)


@router.post(
    "/procedures/{procedure_id}/report",
    response={200: ProcedureOut, **CHANGE_REFUSALS},
    summary="Report how a use ended",
)
def procedure_report_post(request: HttpRequest, procedure_id: UUID, payload: ProcedureReportIn, agent: str = "") -> Any:
    _, by, memory = caller(request, agent, "memory.change_procedure")
    procedure = row_of(memory.procedures, procedure_id, "procedure")
    return procedure_report(procedure=procedure, by=by, **payload.dict())
