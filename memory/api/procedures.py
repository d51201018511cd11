"""The API of procedures."""

from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Status
from pydantic import Field

from memory.api.common import (
    AnyTrust,
    Content,
    MemoryIn,
    MemoryOut,
    MemoryPatch,
    Remark,
    RemarkEntry,
    agent_arguments,
    memory_arguments,
    memory_page,
    memory_row,
)
from memory.models import Procedure
from memory.policy import MAX_NAME_CHARACTERS, MAX_STEPS
from memory.selectors.filters import ProcedureFilter
from memory.services.procedures import procedure_activate, procedure_create, procedure_report, procedure_update
from nousweb.lib.constrained_types import (
    AgentSlug,
    AnyProject,
    AnyTask,
    AnyUser,
    OptionalWord,
    PageCursor,
    PageLimit,
    UnitInterval,
    text,
)
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Input, optional, page_of

Name = Annotated[str, text(MAX_NAME_CHARACTERS, min_length=1)]
Steps = Annotated[list[RemarkEntry], Field(max_length=MAX_STEPS)]


class ProcedureIn(MemoryIn):
    name: Name
    domain: OptionalWord = ""
    description: Content = Field("", description="Purpose, and when to use it")
    steps: Steps = []


class ProcedurePatch(MemoryPatch, of=ProcedureIn, fields="name domain description steps origin", patch=True):
    """Fields that are left out stay as they are."""

    active: bool = optional("Whether search and prompts may include it")


class ProcedureReportIn(Input):
    success: bool = Field(strict=True)
    note: Remark = ""


class ProcedureOut(
    MemoryOut,
    of=Procedure,
    fields="name domain description steps activation_count success_count failure_count effectiveness"
    " last_activated_at created_at updated_at",
):
    effectiveness: UnitInterval | None = Field(
        description="Share of successes among the known outcomes; null before the first outcome"
    )


router = Router()


@router.post("/procedures", response={201: ProcedureOut, **REFUSALS}, summary="Write down a procedure")
def procedures_post(request: HttpRequest, payload: ProcedureIn, agent: AgentSlug = "") -> Any:
    """Store the steps of a procedure, so that search finds them. A name need not be unique."""
    return Status(201, procedure_create(**agent_arguments(request, agent, "memory.add_procedure"), **payload.dict()))


@router.get("/procedures", response={200: page_of(ProcedureOut), **REFUSALS}, summary="List procedures")
def procedures_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    q: str = Query("", max_length=200, description="Words in the name or the description"),
    domain: str = "",
    tag: str = "",
    project: AnyProject = "",
    task: AnyTask = "",
    user: AnyUser = "",
    trust: AnyTrust = "",
    min_effectiveness: UnitInterval | None = Query(None, description="Excludes procedures without reports"),
    state: Literal["active", "retired", "all"] = "active",
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Procedures of the token's persona, latest first."""
    return memory_page(
        request,
        agent,
        Procedure,
        ProcedureFilter,
        limit=limit,
        cursor=cursor,
        q=q,
        domain=domain,
        tag=tag,
        project=project,
        task=task,
        user=user,
        trust=trust,
        min_effectiveness=min_effectiveness,
        state=state,
    )


@router.get("/procedures/{procedure_id}", response={200: ProcedureOut, **REFUSALS}, summary="One procedure")
def procedure_get(request: HttpRequest, procedure_id: UUID, agent: AgentSlug = "") -> Any:
    """One procedure with its steps and its counts. Answers 404 for one of another agent or persona."""
    return memory_row(request, agent, "view", Procedure, procedure_id)[0]


@router.patch(
    "/procedures/{procedure_id}", response={200: ProcedureOut, **CHANGE_REFUSALS}, summary="Change a procedure"
)
def procedure_patch(request: HttpRequest, procedure_id: UUID, payload: ProcedurePatch, agent: AgentSlug = "") -> Any:
    """Change its text, its metadata, or whether search shows it. Only people can change a procedure that
    people wrote or changed: a token gets 409."""
    return procedure_update(
        **memory_arguments(request, agent, "change", Procedure, procedure_id), **payload.dict(exclude_unset=True)
    )


@router.post(
    "/procedures/{procedure_id}/activate", response={200: ProcedureOut, **CHANGE_REFUSALS}, summary="Count one use"
)
def procedure_activate_post(request: HttpRequest, procedure_id: UUID, agent: AgentSlug = "") -> Any:
    """Count a use of the procedure. Its outcome is reported with `/report`. Answers 409 if it is not in use."""
    return procedure_activate(**memory_arguments(request, agent, "change", Procedure, procedure_id))


@router.post(
    "/procedures/{procedure_id}/report",
    response={200: ProcedureOut, **CHANGE_REFUSALS},
    summary="Report how a use ended",
)
def procedure_report_post(
    request: HttpRequest, procedure_id: UUID, payload: ProcedureReportIn, agent: AgentSlug = ""
) -> Any:
    """Count a success or a failure for its effectiveness. Answers 409 if the procedure is not in use."""
    return procedure_report(**memory_arguments(request, agent, "change", Procedure, procedure_id), **payload.dict())
