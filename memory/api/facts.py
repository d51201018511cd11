"""Facts over HTTP."""

from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Status

from identity.selectors import agent_for
from memory.api.common import REFUSALS, keyset_page, principal
from memory.persona import memory_of
from memory.schemas.facts import FactIn, FactOut, FactPage, LearnOut
from memory.services.facts import fact_learn
from nousweb.lib.errors import NotFound

router = Router()


@router.post("/facts", response={201: LearnOut, **REFUSALS}, summary="Learn a fact")
def facts_post(request: HttpRequest, payload: FactIn, agent: str = "") -> Any:
    by = principal(request)
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
    by = principal(request)
    found = agent_for(by, agent)
    by.require("memory.view_fact", found)
    facts = memory_of(found, by).facts
    if category:
        facts = facts.filter(category=category)
    if subject:
        facts = facts.filter(subject__iexact=subject)
    if state != "all":
        facts = facts.filter(active=state == "active")
    return keyset_page(facts, moment="recorded_at", limit=limit, cursor=cursor)


@router.get("/facts/{fact_id}", response={200: FactOut, **REFUSALS}, summary="One fact")
def fact_get(request: HttpRequest, fact_id: UUID, agent: str = "") -> Any:
    by = principal(request)
    found = agent_for(by, agent)
    by.require("memory.view_fact", found)
    fact = memory_of(found, by).facts.filter(pk=fact_id).first()
    if fact is None:
        raise NotFound("There is no such fact.")
    return fact
