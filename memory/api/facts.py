"""The API of facts."""

from typing import Any, Literal
from uuid import UUID

from django.db.models import Window
from django.db.models.functions import RowNumber
from django.http import HttpRequest
from ninja import Query, Router, Status

from memory.api.common import CHANGE_REFUSALS, REFUSALS, caller, list_page, row_of
from memory.schemas.facts import (
    FactChangeOut,
    FactIn,
    FactOut,
    FactPatch,
    FactReasonIn,
    FactRestoreIn,
    LearnOut,
    SupersedeIn,
    SupersedeOut,
)
from memory.schemas.types import AnyScope, AnyTrust
from memory.selectors.filters import FactFilter
from memory.services.facts import (
    fact_confirm,
    fact_edit,
    fact_invalidate,
    fact_learn,
    fact_replace,
    fact_restore,
)
from nousweb.lib.constrained_types import AgentSlug, AnyProject, AnyTask, PageCursor, PageLimit
from nousweb.lib.schemas import Moment, page_of
from nousweb.lib.validation import moment_check

router = Router()


@router.post("/facts", response={201: LearnOut, **REFUSALS}, summary="Learn a fact")
def facts_post(request: HttpRequest, payload: FactIn, agent: AgentSlug = "") -> Any:
    """Store a new fact, confirm a known one, or supersede an old one that has certainly changed.

    A possible duplicate or contradiction is stored with a review for people or the judge.
    """
    found, by, _ = caller(request, agent, "memory.add_fact")
    return Status(201, fact_learn(agent=found, by=by, **payload.dict()))


@router.get("/facts", response={200: page_of(FactOut), **REFUSALS}, summary="List facts")
def facts_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    q: str = Query("", max_length=200, description="Words in the content or the subject"),
    category: str = "",
    subject: str = Query(
        "", max_length=200, description="Any spelling of the subject; facts with other spellings are found too"
    ),
    tag: str = "",
    project: AnyProject = "",
    task: AnyTask = "",
    trust: AnyTrust = "",
    scope: AnyScope = "",
    state: Literal["active", "expired", "not_yet_valid", "retired", "all"] = Query(
        "active", description="active: not retired, and valid now"
    ),
    as_of: Moment | None = Query(
        None, description="Recorded at that time and, according to today's records, valid then"
    ),
    recorded_as_of: Moment | None = Query(None, description="Recorded as true at that time, right or wrong"),
    valid_at: Moment | None = Query(None, description="Valid at that time, according to today's records"),
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Facts of the token's persona, latest first. With a moment, `state` is ignored."""
    _, _, memory = caller(request, agent, "memory.view_fact")
    looks_back = bool(as_of or recorded_as_of or valid_at)
    facts = FactFilter.narrow(
        memory.facts,
        q=q,
        subject=subject,
        tag=tag,
        project=project,
        task=task,
        trust=trust,
        scope=scope,
        as_of=as_of,
        state="all" if looks_back else state,
    )
    # The console's filter of categories knows a name for several of them, which may be one of an agent's own.
    if category:
        facts = facts.filter(category=category)
    if moment := moment_check("recorded_as_of", recorded_as_of):
        facts = facts.recorded_as_of(moment)
    if moment := moment_check("valid_at", valid_at):
        facts = facts.valid_at(moment)
    return list_page(facts, moment="recorded_at", limit=limit, cursor=cursor)


@router.get("/facts/{fact_id}", response={200: FactOut, **REFUSALS}, summary="One fact")
def fact_get(request: HttpRequest, fact_id: UUID, agent: AgentSlug = "") -> Any:
    """One fact with both its times, active or retired. Answers 404 for one of another agent or persona."""
    _, _, memory = caller(request, agent, "memory.view_fact")
    return row_of(memory.facts, fact_id, "fact")


@router.get(
    "/facts/{fact_id}/history",
    response={200: page_of(FactChangeOut, "FactHistory"), **REFUSALS},
    summary="What happened to a fact",
)
def fact_history(
    request: HttpRequest,
    fact_id: UUID,
    agent: AgentSlug = "",
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Every change of a fact with who made it and why, latest first."""
    _, _, memory = caller(request, agent, "memory.view_fact")
    fact = row_of(memory.facts, fact_id, "fact")
    # Numbered by themselves: their ids tell how much everybody else has changed.
    changes = fact.changes.annotate(number=Window(RowNumber(), order_by=["at", "id"]))
    return list_page(changes, moment="at", limit=limit, cursor=cursor, key="number")


@router.post("/facts/{fact_id}/confirm", response={200: FactOut, **CHANGE_REFUSALS}, summary="Confirm a fact")
def fact_confirm_post(
    request: HttpRequest, fact_id: UUID, payload: FactReasonIn | None = None, agent: AgentSlug = ""
) -> Any:
    """Count another confirmation of the fact."""
    _, by, memory = caller(request, agent, "memory.add_fact")
    fact = row_of(memory.facts, fact_id, "fact")
    return fact_confirm(fact=fact, by=by, reason=payload.reason if payload else "")


@router.post(
    "/facts/{fact_id}/supersede",
    response={200: SupersedeOut, 202: SupersedeOut, **CHANGE_REFUSALS},
    summary="Replace a fact",
)
def fact_supersede_post(request: HttpRequest, fact_id: UUID, payload: SupersedeIn, agent: AgentSlug = "") -> Any:
    """Replace this fact with another one: this one was true until then, and stays in the history.

    Only people can replace a fact that people wrote, confirmed or kept. For a token, 202 means that a review is
    pending, and 409 that there is a review already, or that people have decided.
    """
    _, by, memory = caller(request, agent, "memory.add_fact")
    old = row_of(memory.facts, fact_id, "fact")
    new = None if payload.fact_id is None else row_of(memory.facts, payload.fact_id, "fact")
    fields = None if payload.by is None else payload.by.dict(exclude_unset=True)
    replacement = fact_replace(old=old, new=new, fields=fields, by=by, reason=payload.reason, at=payload.at)
    return Status(202 if replacement.action == "queued" else 200, replacement)


@router.post(
    "/facts/{fact_id}/invalidate", response={200: FactOut, **CHANGE_REFUSALS}, summary="Mark a fact as wrong (people)"
)
def fact_invalidate_post(
    request: HttpRequest, fact_id: UUID, payload: FactReasonIn | None = None, agent: AgentSlug = ""
) -> Any:
    """Invalidate a fact that was never true: unlike a superseded one, it is removed from the valid past too."""
    _, by, memory = caller(request, agent, "memory.change_fact")
    fact = row_of(memory.facts, fact_id, "fact")
    return fact_invalidate(fact=fact, by=by, reason=payload.reason if payload else "")


@router.post(
    "/facts/{fact_id}/restore", response={200: FactOut, **CHANGE_REFUSALS}, summary="Restore a retired fact (people)"
)
def fact_restore_post(
    request: HttpRequest, fact_id: UUID, payload: FactRestoreIn | None = None, agent: AgentSlug = ""
) -> Any:
    """Make a retired fact active again as it was, as a new change of its history."""
    _, by, memory = caller(request, agent, "memory.change_fact")
    fact = row_of(memory.facts, fact_id, "fact")
    return fact_restore(fact=fact, by=by, **(payload.dict() if payload else {}))


@router.patch("/facts/{fact_id}", response={200: FactOut, **CHANGE_REFUSALS}, summary="Recategorise a fact (people)")
def fact_patch(request: HttpRequest, fact_id: UUID, payload: FactPatch, agent: AgentSlug = "") -> Any:
    """Change tags, importance, category, scope, project or task; the text of a fact is never edited."""
    _, by, memory = caller(request, agent, "memory.change_fact")
    fact = row_of(memory.facts, fact_id, "fact")
    return fact_edit(fact=fact, by=by, **payload.dict(exclude_unset=True))
