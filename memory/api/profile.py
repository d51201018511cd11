"""The API of the user's profile: the facts about people that every prompt includes. Source: seed 008, A2 and B2."""

from datetime import datetime
from typing import Any, cast

from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber
from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import Field

from identity.models import IdentityVersion
from identity.policy.sections import Section
from memory.api.common import caller
from memory.api.facts import FactOut
from memory.models import Fact, ProjectScope, scope_check
from nousweb.lib.constrained_types import AgentSlug, PageLimit, ProjectKey, ReadingUser, TaskKey
from nousweb.lib.schemas import REFUSALS


class ProfileCountsOut(Schema):
    user: int
    preferences: int
    rules: int


class PreferencesSectionOut(Schema):
    version: int
    content: str
    updated_at: datetime = Field(alias="created_at")
    updated_by: str = Field(alias="author_name")


class UserProfileOut(Schema):
    agent: str
    section: PreferencesSectionOut | None = Field(
        description="Current Preferences of the agent's identity; null while there are none"
    )
    user: list[FactOut] = Field(description="Facts of the category person")
    preferences: list[FactOut] = Field(description="Facts of the category preference")
    rules: list[FactOut] = Field(description="Facts of the category rule")
    counts: ProfileCountsOut = Field(description="Number of each, including those beyond `limit`")


router = Router()

FIELDS = {"user": "person", "preferences": "preference", "rules": "rule"}
"""Fields of the answer and the categories of facts that they hold."""


@router.get("/profile", response={200: UserProfileOut, **REFUSALS}, summary="The user's facts, preferences and rules")
def profile_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    limit: PageLimit = 50,
    project: ProjectKey = "",
    task: TaskKey = "",
    user: ReadingUser = "",
) -> Any:
    """The facts about the user in every prompt, without a search, and the Preferences of the identity.

    Current facts of the token's persona, at most `limit` of each category: facts verified by people first, then by
    confidence. Global facts, and those of the project, task and user that are named.
    """
    found, by, memory = caller(request, agent, "memory.view_fact")
    by.require("identity.view_identityversion", found)
    section = IdentityVersion.objects.current().filter(agent=found, section=Section.PREFERENCES).first()
    scope = scope_check(ProjectScope(project, task, user=user), by)
    facts = memory.facts.current().profile().filter(scope.q).human_verified_first()
    in_category = [F("category")]
    ranked = facts.annotate(
        place=Window(RowNumber(), partition_by=in_category, order_by=cast("Any", facts.query.order_by)),
        of_category=Window(Count("*"), partition_by=in_category),
    )
    held: dict[str, list[Fact]] = {category: [] for category in FIELDS.values()}
    counts = dict.fromkeys(FIELDS.values(), 0)
    for fact in ranked.filter(place__lte=limit).order_by("place"):
        held[fact.category].append(fact)
        counts[fact.category] = fact.of_category  # type: ignore[attr-defined]
    return {
        "agent": found.slug,
        "section": section,
        **{name: held[category] for name, category in FIELDS.items()},
        "counts": {name: counts[category] for name, category in FIELDS.items()},
    }
