"""Memory over HTTP."""

from typing import Any, Literal
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest
from ninja import Query, Router, Status

from identity.principal import Principal
from identity.selectors import agent_for
from memory.models import Fact
from memory.schemas import FactIn, FactOut, FactPage, LearnOut
from memory.services.facts import fact_learn
from nousweb.lib.cursor import cursor_decode, cursor_encode
from nousweb.lib.errors import Invalid, NotFound
from nousweb.lib.schemas import Problem

router = Router(tags=["memory"])

REFUSALS = {401: Problem, 403: Problem, 404: Problem, 422: Problem}


def _principal(request: HttpRequest) -> Principal:
    return request.auth  # type: ignore[attr-defined]


@router.post("/facts", response={201: LearnOut, **REFUSALS}, summary="Learn a fact", by_alias=True)
def facts_post(request: HttpRequest, payload: FactIn, agent: str = "") -> Any:
    by = _principal(request)
    result = fact_learn(agent=agent_for(by, agent), by=by, **payload.dict())
    return Status(201, {"action": result.action, "fact": result.fact})


@router.get("/facts", response={200: FactPage, **REFUSALS}, summary="List facts")
def facts_get(
    request: HttpRequest,
    agent: str = "",
    category: str = "",
    subject: str = "",
    state: Literal["active", "retired", "all"] = "active",
    limit: int = Query(50, ge=1, le=200),
    cursor: str = "",
) -> Any:
    """Facts of the token's persona, latest first."""
    by = _principal(request)
    found = agent_for(by, agent)
    by.require("memory.view_fact", found)
    facts = Fact.objects.filter(agent=found, persona=by.persona)
    if category:
        facts = facts.filter(category=category)
    if subject:
        facts = facts.filter(subject__iexact=subject)
    if state != "all":
        facts = facts.filter(active=state == "active")
    if cursor:
        moment, fact_id = cursor_decode(cursor)
        try:
            last = UUID(fact_id)
        except ValueError as error:
            raise Invalid("This cursor is not one that a page gave out.", field="cursor") from error
        facts = facts.filter(Q(recorded_at__lt=moment) | Q(recorded_at=moment, id__lt=last))
    page = list(facts.order_by("-recorded_at", "-id")[: limit + 1])
    items = page[:limit]
    more = len(page) > limit
    return {"items": items, "next": cursor_encode(items[-1].recorded_at, items[-1].id) if more else None}


@router.get("/facts/{fact_id}", response={200: FactOut, **REFUSALS}, summary="One fact")
def fact_get(request: HttpRequest, fact_id: UUID, agent: str = "") -> Any:
    by = _principal(request)
    found = agent_for(by, agent)
    by.require("memory.view_fact", found)
    fact = Fact.objects.filter(agent=found, persona=by.persona, pk=fact_id).first()
    if fact is None:
        raise NotFound("There is no such fact.")
    return fact
