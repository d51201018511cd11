"""The API of the users whom an agent serves: list them, export and erase everything of one, assign memories."""

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import Field

from identity.models import Agent
from identity.principal import Principal
from identity.selectors import agent_called, caller_of
from memory.api.common import agent_arguments
from memory.policy import MAX_REMARK_CHARACTERS
from memory.services.erasure import user_erase
from memory.services.users import MANAGE, agents_of_user, memories_assign, personas_of, user_counts
from memory.transfer.agent_export import user_export
from nousweb.lib.constrained_types import AgentSlug, UserKey, text
from nousweb.lib.schemas import REFUSALS, Input

router = Router()
EveryAgent = Annotated[AgentSlug, Field(description="One agent; for people, all of theirs without it")]


class UserOut(Schema):
    user: str = Field(description='"?" for memories that are assigned to nobody')
    agent: str
    memories: dict[str, int] = Field(description="Numbers by type")


class UsersOut(Schema):
    items: list[UserOut]


class EraseIn(Input):
    user: Annotated[UserKey, Field(min_length=1, description="The user's key")]
    reason: Annotated[str, text(MAX_REMARK_CHARACTERS, min_length=1)] = Field(description="Kept in the receipt")


class AssignIn(Input):
    user: Annotated[UserKey, Field(min_length=1, description='The user\'s key; "*" for everybody')]
    types: list[str] = Field([], max_length=20, description="Types of memories, such as `fact`; all without any")
    words: Annotated[str, text(200)] = Field("", description="Only memories that contain them")


class AssignedOut(Schema):
    assigned: dict[str, int] = Field(description="Numbers by type")


class ErasedOut(Schema):
    agent: str
    rows: dict[str, int] = Field(description="Numbers of erased or blanked rows by table")
    still_quoted: dict[str, int] = Field(description="Numbers of rows by table that quote an erased text and were kept")


class ErasureOut(Schema):
    items: list[ErasedOut] = Field(description="The receipts, one for each agent")


def _agents(request: HttpRequest, slug: str) -> tuple[list[Agent], Principal]:
    """The agents that a call is about: the token's own, the one that is named, or all of a person's."""
    by = caller_of(request)
    if by.token is None and not slug:
        by.require(MANAGE)
        return list(Agent.objects.visible_to(by).order_by("slug")), by
    return [agent_called(request, slug, MANAGE)[0]], by


@router.get("/users", response={200: UsersOut, **REFUSALS}, summary="The users of an agent")
def users_get(request: HttpRequest, agent: EveryAgent = "") -> Any:
    """The users of whom there are memories. Needs the scope `users:manage`."""
    agents, by = _agents(request, agent)
    slugs = {one.pk: one.slug for one in agents}
    counts = user_counts(agents, personas=personas_of(by))
    found = sorted((user, slugs[key], dict(count)) for (key, user), count in counts.items())
    return {"items": [{"user": user, "agent": slug, "memories": memories} for user, slug, memories in found]}


@router.get("/users/export", response={200: None, **REFUSALS}, summary="Export everything of a user")
def users_export_get(request: HttpRequest, user: UserKey = Query(min_length=1), agent: EveryAgent = "") -> Any:
    """JSON Lines: each row that carries the user's key, with its table and agent. Needs the scope `users:manage`."""
    agents, by = _agents(request, agent)
    lines = user_export(agents=agents_of_user(agents, user, personas_of(by)), user=user, by=by)
    return HttpResponse("".join(lines), content_type="application/x-ndjson; charset=utf-8")


@router.post("/users/assign", response={200: AssignedOut, **REFUSALS}, summary="Assign memories to a user")
def users_assign_post(request: HttpRequest, payload: AssignIn, agent: AgentSlug = "") -> Any:
    """Assigns memories that are nobody's, from before the agent served many users, to a user or to everybody. People
    only."""
    return {"assigned": memories_assign(**agent_arguments(request, agent), **payload.dict())}


@router.post("/users/erase", response={200: ErasureOut, **REFUSALS}, summary="Erase everything of a user")
def users_erase_post(request: HttpRequest, payload: EraseIn, agent: EveryAgent = "") -> Any:
    """Erases all memories, sessions, contexts and tokens of a user for good, in both personas.

    Returns the receipts. Needs the scope `users:manage`. A token of the actor gets no numbers.
    """
    agents, by = _agents(request, agent)
    receipts = {
        one.slug: user_erase(agent=one, user=payload.user, by=by, reason=payload.reason)
        for one in agents_of_user(agents, payload.user)
    }
    if len(personas_of(by)) > 1:
        rows = [(slug, receipt.rows, receipt.still_quoted) for slug, receipt in receipts.items()]
        return {"items": [{"agent": slug, "rows": gone, "still_quoted": left} for slug, gone, left in rows]}
    # Whether there was anything in the subconscious is not for the actor.
    return {"items": [{"agent": one.slug, "rows": {}, "still_quoted": {}} for one in agents]}
