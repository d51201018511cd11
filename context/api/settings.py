"""The API of an agent's prompt settings, for people only."""

from collections.abc import Callable
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import Field

from context.engine.analysis.agent_time import MAX_ZONE_CHARACTERS, RecentMode
from context.engine.analysis.profiles import MAX_CATEGORIES, ContestedOrder, ContestedPolicy
from context.engine.section_budgets import MAX_TOTAL
from context.services.agent_settings import (
    BUDGETS,
    CHANGE,
    AgentSettings,
    SettingsVersion,
    settings_get,
    settings_history,
    settings_restore,
    settings_update,
)
from identity.policy.sections import MAX_REASON_CHARACTERS
from memory.api.common import agent_arguments
from memory.policy import TRUST_ORDER
from memory.policy.oversight import (
    DEFAULT_AUTONOMY,
    DEFAULT_BUDGET,
    MAX_DAYS,
    MAX_REVIEWS,
    MAX_RULES,
    MAX_WRITER_CHARACTERS,
    UNTRUSTED_WORDS,
    AttentionBudget,
    AutomaticDecision,
    Autonomy,
    ConsentAction,
    ConsentPolicy,
)
from memory.search.languages import LANGUAGES
from nousweb.lib.constrained_types import AgentSlug, OneOf, OptionalWord, ProjectKey, text
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Derived, Input

router = Router(tags=["settings"])

VersionNumber = Annotated[int, Field(ge=0, le=2_000_000_000)]
Reason = Annotated[str, text(MAX_REASON_CHARACTERS)]


class ContestedIn(Input):
    order: ContestedOrder = Field(ContestedOrder.NEWEST_FIRST, description="Order of all contested facts")
    categories: dict[str, ContestedOrder] = Field(
        {}, max_length=MAX_CATEGORIES, description="Order by category, instead of `order`"
    )


class AttentionIn(Input):
    per_hundred_facts: int = Field(
        DEFAULT_BUDGET.per_hundred_facts,
        ge=0,
        le=MAX_REVIEWS["per_hundred_facts"],
        description="Reviews for each begun hundred of learned facts",
    )
    per_day: int = Field(DEFAULT_BUDGET.per_day, ge=0, le=MAX_REVIEWS["per_day"], description="Reviews in 24 hours")
    unlimited: bool = Field(DEFAULT_BUDGET.unlimited, description="Ask about everything")


class AutonomyIn(Input):
    max_error: float = Field(
        DEFAULT_AUTONOMY.max_error,
        ge=0,
        le=1,
        description="A kind of automatic decision whose error is certainly greater goes back to asking",
    )
    asking: list[AutomaticDecision] = Field(
        [], max_length=len(AutomaticDecision), description="Decisions that people make instead"
    )


class ConsentRuleIn(Input):
    action: ConsentAction = Field(
        description="show: used, and people are asked whether it is right. pending: no agent gets it until a person "
        "allows it"
    )
    category: OptionalWord = Field(
        "",
        description="A category of facts, core_memory (person, preference, rule), or a type of memory; any by default",
    )
    trust: Annotated[str, OneOf("", *TRUST_ORDER, UNTRUSTED_WORDS)] = Field(
        "", description="untrusted: tool, web, and imported by a token's word; any by default"
    )
    writer: Annotated[str, text(MAX_WRITER_CHARACTERS)] = Field("", description="Name of a token; any by default")
    project: ProjectKey = Field("", description="Any by default")
    instructs: bool = Field(False, description="Only facts that tell their reader what to do")
    days: int = Field(0, ge=0, le=MAX_DAYS, description="A pending memory is given up then; 0: as any review expires")


class SettingsIn(Input):
    budgets: dict[str, int] | None = Field(
        None,
        description="Tokens by section and `total`; replaces all budgets; {} restores the defaults",
        json_schema_extra={
            "propertyNames": {"enum": [*BUDGETS]},
            "additionalProperties": {"type": "integer", "minimum": 0, "maximum": MAX_TOTAL},
        },
    )
    stm: dict[str, Any] | None = Field(None, description="Short-term search; replaces all settings; see memory.md")
    profile: str | None = Field(None, max_length=100, description="A profile's slug; empty for the default of its kind")
    contested: ContestedIn | None = Field(
        None, description="How prompts show contested facts; replaces the whole setting; see context.md"
    )
    attention: AttentionIn | None = Field(
        None,
        description="How many reviews of two facts, and of attributes, people are asked about; replaces the whole "
        "setting; see lifecycle.md",
    )
    autonomy: AutonomyIn | None = Field(
        None, description="What is decided about facts without people; replaces the whole setting; see lifecycle.md"
    )
    consent: Annotated[list[ConsentRuleIn], Field(max_length=MAX_RULES)] | None = Field(
        None,
        description="Which new memories wait for a person, and which are refused: the first rule that fits decides; "
        "replaces all rules; see security.md",
    )
    language: str | None = Field(
        None,
        max_length=10,
        description="Code of the language of the word search; empty to detect it",
        json_schema_extra={"enum": ["", *LANGUAGES]},
    )
    time_zone: str | None = Field(
        None, max_length=MAX_ZONE_CHARACTERS, description="IANA name of the users' time zone; empty for the server's"
    )
    recent: RecentMode | None = Field(None, description="When prompts list the last conversations; see context.md")
    serves_users: bool | None = Field(
        None,
        description="Whether each write names a user, or everybody. From then on, memories without one are nobody's "
        "until people assign them; see memory.md",
    )
    base_version: VersionNumber | None = Field(None, description="Refused with 409 when another version is in force")
    reason: Reason = ""


class RestoreIn(Input):
    version: VersionNumber
    reason: Reason = ""


class ContestedOut(Derived, of=ContestedIn): ...


class AttentionOut(Derived, of=AttentionIn): ...


class AutonomyOut(Derived, of=AutonomyIn): ...


class ConsentRuleOut(Derived, of=ConsentRuleIn): ...


class SettingsOut(
    Derived,
    of=AgentSettings,
    fields="version budgets stm profile contested attention autonomy consent language time_zone recent serves_users",
):
    version: int = Field(description="Counts the changes, from 0")
    profile: str = Field(description="Empty for the default of the agent's kind")
    contested: ContestedOut
    attention: AttentionOut
    autonomy: AutonomyOut
    consent: list[ConsentRuleOut] = Field(alias="consent.rules")
    language: str = Field(description="Empty if detected; `GET /api/index` returns the detected language")
    time_zone: str = Field(description="Empty for that of the server")


class SettingsVersionOut(Derived, of=SettingsVersion, fields="settings at author_name reason changed"):
    settings: SettingsOut


class SettingsHistoryOut(Schema):
    items: list[SettingsVersionOut] = Field(description="All changes, the latest first")


@router.get("/settings", response={200: SettingsOut, **REFUSALS}, summary="An agent's settings (people)")
def settings_read(request: HttpRequest, agent: AgentSlug = "") -> Any:
    """Budgets, short-term search, profile, contested facts, attention budget, autonomy, consent policy, language, time
    zone and recent conversations of the agent, and their version."""
    return settings_get(**agent_arguments(request, agent))


CHECKS: dict[str, Callable[[Any], Any]] = {
    "contested": lambda given: ContestedPolicy.checked(**given),
    "attention": lambda given: AttentionBudget.checked(**given),
    "autonomy": lambda given: Autonomy.checked(**given),
    "consent": ConsentPolicy.checked,
}


@router.put("/settings", response={200: SettingsOut, **CHANGE_REFUSALS}, summary="Change them (people)")
def settings_put(request: HttpRequest, payload: SettingsIn, agent: AgentSlug = "") -> Any:
    """A new version with the given settings; settings that are left out do not change. No token can do this."""
    whose, given = agent_arguments(request, agent, CHANGE), payload.dict()
    given |= {name: check(given[name]) for name, check in CHECKS.items() if given[name] is not None}
    return settings_update(**whose, **given)


@router.get("/settings/history", response={200: SettingsHistoryOut, **REFUSALS}, summary="Their versions (people)")
def settings_history_get(request: HttpRequest, agent: AgentSlug = "") -> Any:
    """Changes of the settings with author and time, and the settings from then on."""
    return {"items": settings_history(**agent_arguments(request, agent))}


@router.post("/settings/restore", response={200: SettingsOut, **REFUSALS}, summary="Restore a version (people)")
def settings_restore_post(request: HttpRequest, payload: RestoreIn, agent: AgentSlug = "") -> Any:
    """Restore the settings of an earlier version as a new version."""
    return settings_restore(**agent_arguments(request, agent), version=payload.version, reason=payload.reason)
