"""The API of censors."""

from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from memory.api.common import (
    AnySeverity,
    CensorMatch,
    Quarantined,
    Remark,
    Severity,
    TrustName,
    agent_arguments,
    memory_arguments,
    memory_page,
    memory_row,
)
from memory.models import Censor
from memory.policy import MAX_DETAIL_CHARACTERS, MAX_ESCALATION_THRESHOLD, MAX_PATTERN_CHARACTERS
from memory.selectors.filters import CensorFilter
from memory.services.censors import censor_check, censor_create, censor_false_positive, censor_update
from nousweb.lib.constrained_types import AgentSlug, OptionalWord, PageCursor, PageLimit
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Derived, Input, optional, page_of

# The service says what is wrong with one, and what would do instead.
Pattern = Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_PATTERN_CHARACTERS})]
Threshold = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Escalation = Annotated[int, Field(ge=1, le=MAX_ESCALATION_THRESHOLD)]


class CensorIn(Input):
    pattern: Pattern = Field(description="A regular expression (RE2, ignoring case), or a meaning in words")
    match: CensorMatch = "regex"
    severity: Severity = Field("warn", description="Only a person can set absolute")
    reason: Remark = Field("", description="Reason; shown with every match")
    domain: OptionalWord = Field("", description="Checks for another domain ignore it")
    similarity_threshold: Threshold | None = Field(None, description="Minimum cosine of a semantic match")
    escalation_threshold: Escalation = Field(5, description="Activations after which a warning becomes a block")


class CensorPatch(Input, of=CensorIn, fields="pattern severity reason domain escalation_threshold", patch=True):
    """Fields that are left out stay as they are."""

    similarity_threshold: Threshold = optional()
    active: bool = optional("Whether it is checked")
    message: Remark = Field("", description="Reason for the change; kept in the audit trail")


class CensorFalsePositiveIn(Input):
    message: Remark = ""


class CensorOut(
    Derived,
    of=Censor,
    fields="id persona pattern match similarity_threshold severity domain reason escalation_threshold"
    " activation_count false_positive_count last_activated_at author_kind author_name created_at updated_at"
    " trust quarantined active",
):
    trust: TrustName
    quarantined: Quarantined


class CensorCheckIn(Input):
    text: Annotated[str, Field(max_length=MAX_DETAIL_CHARACTERS)]
    dry: bool = Field(False, description="Check only, without counting activations")
    domain: OptionalWord = Field("", description="Ignore the censors of other domains")


class CensorSpanOut(Schema):
    start: int
    end: int


class CensorMatchOut(Derived, of=Censor, fields="id severity reason domain match pattern"):
    why: str
    spans: list[CensorSpanOut] = Field(description="Character ranges of the text, at most 20")
    more: bool = Field(description="Whether there are more matching places")
    similarity: float | None = Field(description="Best cosine of a semantic match")


class CensorTimedOutOut(Derived, of=CensorMatchOut, fields="id severity why"):
    blocks: bool = Field(description="Whether it blocks the text: it was made by a person or the product")


class CensorCheckOut(Schema):
    verdict: Literal["allow", "warn", "block"]
    reason: str = Field(description="Censors that block the text because they could not be checked; else empty")
    matches: list[CensorMatchOut] = Field(description="Strictest first")
    timed_out: list[CensorTimedOutOut] = Field(
        description="Censors that were not fully checked: those made by people block, others count as no match"
    )


router = Router()


@router.post("/censors", response={201: CensorOut, **CHANGE_REFUSALS}, summary="Make a censor")
def censors_post(request: HttpRequest, payload: CensorIn, agent: AgentSlug = "") -> Any:
    """A pattern or a meaning that texts are checked against. Tokens can make warnings and blocks, but no absolutes."""
    return Status(201, censor_create(**agent_arguments(request, agent, "memory.add_censor"), **payload.dict()))


@router.get("/censors", response={200: page_of(CensorOut), **REFUSALS}, summary="List censors")
def censors_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    q: str = Query("", max_length=200, description="Words in the pattern or the reason"),
    severity: AnySeverity = "",
    domain: str = "",
    state: Literal["active", "retired", "all"] = "active",
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Censors of the token's persona, latest first."""
    return memory_page(
        request,
        agent,
        Censor,
        CensorFilter,
        limit=limit,
        cursor=cursor,
        q=q,
        severity=severity,
        domain=domain,
        state=state,
    )


@router.post("/censors/check", response={200: CensorCheckOut, **REFUSALS}, summary="Check a text against the censors")
def censors_check(request: HttpRequest, payload: CensorCheckIn, agent: AgentSlug = "") -> Any:
    """Censors that a text triggers, strictest first, with places and reasons; counts each match unless `dry`.

    A censor made by people that cannot be checked blocks the text, and `reason` names it.
    """
    outcome, censors = censor_check(
        text=payload.text,
        **agent_arguments(request, agent, "memory.view_censor" if payload.dry else "memory.trigger_censor"),
        count=not payload.dry,
        domain=payload.domain,
    )
    return {
        "verdict": outcome.verdict,
        "reason": outcome.unverified_reason,
        "matches": [
            {
                "id": match.rule.id,
                "severity": match.rule.severity,
                "reason": censors[match.rule.id].reason,
                "domain": censors[match.rule.id].domain,
                "match": censors[match.rule.id].match,
                "pattern": match.rule.pattern,
                "why": match.why,
                "spans": [{"start": span.start, "end": span.end} for span in match.spans],
                "more": match.more,
                "similarity": match.similarity,
            }
            for match in outcome.matches
        ],
        "timed_out": [
            {
                "id": missed.rule.id,
                "severity": missed.rule.severity,
                "why": missed.why,
                "blocks": missed.rule.binding,
            }
            for missed in outcome.timed_out
        ],
    }


@router.get("/censors/{censor_id}", response={200: CensorOut, **REFUSALS}, summary="One censor")
def censor_get(request: HttpRequest, censor_id: UUID, agent: AgentSlug = "") -> Any:
    """One censor with its thresholds and how often it matched. Answers 404 for one of another agent or persona."""
    return memory_row(request, agent, "view", Censor, censor_id)[0]


@router.patch("/censors/{censor_id}", response={200: CensorOut, **CHANGE_REFUSALS}, summary="Change a censor (people)")
def censor_patch(request: HttpRequest, censor_id: UUID, payload: CensorPatch, agent: AgentSlug = "") -> Any:
    """Change its pattern, severity or thresholds, retire it (`active`: false) or restore it."""
    return censor_update(
        **memory_arguments(request, agent, "change", Censor, censor_id), **payload.dict(exclude_unset=True)
    )


@router.post(
    "/censors/{censor_id}/false-positive",
    response={200: CensorOut, **CHANGE_REFUSALS},
    summary="Say that a match was mistaken (people)",
)
def censor_false_positive_post(
    request: HttpRequest, censor_id: UUID, payload: CensorFalsePositiveIn | None = None, agent: AgentSlug = ""
) -> Any:
    """Record a false positive, with its reason in the audit trail; only for people."""
    return censor_false_positive(
        **memory_arguments(request, agent, "change", Censor, censor_id), message=payload.message if payload else ""
    )
