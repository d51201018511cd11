"""The API of contexts: assemble a prompt, record the answer and its outcome."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import AwareDatetime, Field

from context.engine.analysis.agent_time import MAX_ZONE_CHARACTERS
from context.engine.analysis.frames import FRAMES, SECTION_BUDGETS
from context.engine.analysis.profiles import MODE_WEIGHTS, NOT_IN_PROMPTS, Profile
from context.engine.analysis.request import MAX_INPUT_CHARACTERS, MAX_MESSAGES, ContextRequest
from context.engine.assembly.prompt_section import LOGGED_LEFT_OUT, LeftOut, Section, Truncation
from context.engine.context_record import ContextRecord, Stability
from context.engine.retrieval.censors import effective_triggers
from context.engine.section_budgets import MAX_TOTAL
from context.feedback.health_score import SHOWN, FingerprintRow, fingerprints
from context.feedback.reference_detector import MAX_RESPONSE_CHARACTERS, REFERENCED_AT
from context.selectors import outcomes_view_check, run_called
from context.services.context import ItemUse, context_assemble, context_outcome, context_respond
from identity.selectors import agent_called, caller_of
from memory.api.censors import CensorSpanOut
from memory.api.common import AllProjects, IncludedProjects, agent_arguments
from memory.models import Censor
from memory.policy import MAX_REMARK_CHARACTERS, MAX_SESSION_CHARACTERS
from memory.search.result import SearchHit
from nousweb.lib import moment_check
from nousweb.lib.bounds import MAX_TAGS
from nousweb.lib.constrained_types import AgentSlug, OneOf, ProjectKey, ReadingUser, TaskKey, UnitInterval
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Derived, Input, Moment, part_of, raw_json_response
from nousweb.lib.tracing import trace_id

CensorMode = Literal["check", "off"]
TimeZone = Annotated[
    str,
    Field(
        max_length=MAX_ZONE_CHARACTERS,
        description="IANA name of the user's time zone, for questions about a time; by default the agent's",
    ),
]


class MessageIn(Input):
    role: str = Field(max_length=50)
    content: str = Field(max_length=MAX_INPUT_CHARACTERS)


class TaskIn(Input):
    key: Annotated[TaskKey, Field(description="Your key of the task: its memory is included, and no other task's")] = ""
    mode: Annotated[str, OneOf(*MODE_WEIGHTS)] | None = None
    tags: Annotated[list[str], Field(max_length=MAX_TAGS)] = []
    files: Annotated[
        list[str], Field(max_length=MAX_TAGS, description="File paths in addition to those in the input")
    ] = []


class ProfileOverrideIn(
    Input,
    of=Profile,
    fields=" ".join(name for name in Profile.__dataclass_fields__ if name not in {"profile_id", *NOT_IN_PROMPTS}),
    patch=True,
):
    """Settings of a profile; those that are left out stay as the profile has them."""


class ContextIn(Input):
    session_id: str = Field(
        min_length=1, max_length=MAX_SESSION_CHARACTERS, description="Conversation or task of the prompt"
    )
    input: str = Field(max_length=MAX_INPUT_CHARACTERS, description="Current input to the agent")
    conversation: list[MessageIn] = Field([], max_length=MAX_MESSAGES, description="The messages so far, oldest first")
    frame: Annotated[str, OneOf(*FRAMES)] | None = Field(
        None, description="Frame to use, instead of one chosen by the input"
    )
    profile: str | None = Field(None, description="A profile's slug; the agent's own by default")
    profile_override: ProfileOverrideIn | None = Field(
        None, description="Settings that override the profile for this request; logged with it, never saved"
    )
    task: TaskIn | None = None
    project: ProjectKey = Field(
        "", description="Your key of the project: its memory is included, and no other project's"
    )
    user: ReadingUser = ""
    include_projects: IncludedProjects = []
    all_projects: AllProjects = False
    budget: Annotated[int, Field(ge=1, le=MAX_TOTAL)] | None = Field(
        None, description="Total tokens; by default the frame's budget"
    )
    budgets: dict[str, int] = Field(
        {},
        description="Tokens by section; they override other budgets",
        json_schema_extra={
            "propertyNames": {"enum": [*SECTION_BUDGETS]},
            "additionalProperties": {"type": "integer", "minimum": 0, "maximum": MAX_TOTAL},
        },
    )
    fill: bool = Field(
        False,
        description="Lower the thresholds in proportion to the budget, so that less certain memories use the rest",
    )
    as_of: AwareDatetime | None = Field(None, description="Reconstruct the context as of this moment")
    time_zone: TimeZone = ""
    censors: CensorMode = Field("check", description="off: neither the input nor the answer is checked; this is logged")
    dry_run: bool = Field(False, description="Do not log the context; the response has no id")
    explain: bool = Field(False, description="Return a verdict on every considered memory")

    def as_request(self) -> ContextRequest:
        """The question to the engine. Raises Invalid."""
        task = (self.task or TaskIn()).dict()
        override = self.profile_override.dict(exclude_unset=True) if self.profile_override else {}
        return ContextRequest.of_json({**self.dict(), **task, "task": task["key"], "profile_override": override})


ContestedAge = Literal["newer", "older"]
ITEM_DEFAULTS: Mapping[str, Any] = {"contested": None, "contested_with": [], "project": "", "task": "", "user": ""}
"""What items of most memories do not have."""


class ItemOut(Schema):
    type: str
    id: str
    tokens: int
    contested: ContestedAge | None = Field(
        None, description="For a fact with an open review: its age compared with the facts that contest it"
    )
    contested_with: list[str] = Field([], description="Ids of the facts that contest it")
    project: str = Field("", description="The project that it belongs to, if any")
    task: str = Field("", description="The task that it belongs to, if any")
    user: str = Field("", description="The user whose memory it is, if not everybody's")


class SectionOut(Derived, of=Section, fields="label key tier tokens budget truncated items"):
    tier: int = Field(description="1 always included, 2 session, 3 searched")
    budget: int = Field(
        description="Guaranteed tokens; people's decisions and the session may also use the unused total"
    )
    truncated: bool = Field(description="Whether a part was left out; see `truncated` of the response")
    items: list[ItemOut]


class BlockOut(Schema):
    id: str = Field(description="Key of its section")
    text: str = Field(description="Exact text, with the break before it")
    sha256: str
    stability: Stability = Field(
        description="stable: the same for every request; session: of the session and its input; volatile: searched"
    )
    changed_by: list[str] = Field(description="Kinds of changes of the feed that may change it, and `request`")


class LeftOutOut(Derived, of=LeftOut, fields="type id tokens tokens_left_out"):
    tokens: int = Field(description="Tokens of the whole piece")
    tokens_left_out: int = Field(description="Equal to `tokens` if nothing of the piece was sent")


class TruncationOut(
    Derived, of=Truncation, fields="key label tier tokens tokens_whole tokens_left_out items_left_out items"
):
    tier: int = Field(description="1 always included, 2 session, 3 searched")
    tokens: int = Field(description="Tokens sent, including the heading; 0 if nothing of the section fits")
    tokens_whole: int = Field(description="Tokens of the section with all pieces")
    tokens_left_out: int
    items_left_out: int
    items: list[LeftOutOut] = Field(description=f"The first {LOGGED_LEFT_OUT} pieces that were cut or left out")


class FrameOut(Schema):
    id: str
    label: str
    confidence: UnitInterval = Field(description="0.3 a pattern found")
    hits: list[str]
    forced: bool
    source: Literal["request", "session", "input", "default"] = Field(
        description="How it was chosen: session means the frame of the session's working memory"
    )


class CandidateOut(
    Derived,
    of=SearchHit,
    fields="type id label text section scope project task user trust kinds verdict reason hint score relevance"
    " threshold cosine lexical importance tokens compressed place factors happened_at",
):
    label: str
    text: str = Field(description="The beginning of the text, at most 500 characters")
    section: str
    project: str = ""
    task: str = ""
    user: str = ""
    trust: str = Field("agent", description="Trust class of its source")
    kinds: list[str]
    verdict: str
    reason: str
    hint: str = Field(description="Condition under which it would have been included")
    score: float = Field(description="Relevance multiplied by all factors")
    relevance: float = Field(description="0 to 1, comparable between queries")
    threshold: float
    tokens: int
    compressed: bool
    place: str = Field(description="head, tail or empty")
    factors: list[tuple[str, float]]
    contested: Literal["", "newer", "older"] = Field(
        "", description="Contested mark of the item; empty if it is not contested"
    )
    contested_with: list[str] = Field([], description="Ids of the facts that contest it")
    superseded_by: str = Field(description="Id of the fact that replaced it, else empty")


class TriggeredCensorOut(Derived, of=Censor, fields="id severity pattern reason blocks spans"):
    reason: str = Field(description="Reason of the censor, or why it could not be checked")
    blocks: bool = Field(description="Whether it blocks the text: the client must stop")
    spans: list[CensorSpanOut] = Field(
        description="Character ranges of the text, at most 20; empty if it could not be checked"
    )


class CensoredOut(Schema):
    """What the censors say of a text."""

    censor_verdict: Literal["allow", "warn", "block", "unchecked"] = Field(
        description="Strictest triggered severity; unchecked if the client requested no check"
    )
    censor_reason: str = Field(description="Why the text is blocked if no censor can be named; else empty")
    censors: list[TriggeredCensorOut] = Field(
        description="Triggered censors, strictest first, then censors that block because they could not be checked"
    )


class ContextOut(CensoredOut):
    id: UUID | None
    system_prompt: str
    tokens: int = Field(description="Estimated tokens of the whole prompt")
    blocks: list[BlockOut] = Field(description="The prompt in pieces, stable ones first; together they are the prompt")
    sections: list[SectionOut]
    truncated: list[TruncationOut] = Field(
        description="Pieces that did not fit, by section; empty if nothing was left out"
    )
    budget: int
    frame: FrameOut
    profile: str
    fingerprint: dict[str, Any]
    failed: list[list[str]] = Field(description="Sections that could not be loaded, with the reason")
    degraded: str = Field(description="Why vector search was unavailable; empty if it was available")
    timings: dict[str, float] = Field(description="Milliseconds by stage")
    trace_id: str = Field("", description="OpenTelemetry trace id if the server collects traces; else empty")
    explanation: dict[str, Any] | None = Field(None, description="Intent, plan, policy and budgets, with `explain`")
    candidates: list[CandidateOut] | None = Field(None, description="With `explain`")


class ResponseIn(Input):
    response: str = Field(max_length=MAX_RESPONSE_CHARACTERS, description="The answer that the prompt led to")
    censors: CensorMode | None = Field(None, description="off: do not check the answer; by default as the request said")


class UseOut(Derived, of=ItemUse, fields="type id overlap referenced"):
    overlap: UnitInterval = Field(description="Confidence that the answer refers to it; 1 for a verbatim repetition")
    referenced: bool = Field(description=f"Whether that is at least {REFERENCED_AT}")


class ResponseOut(CensoredOut):
    items: list[UseOut]


class OutcomeIn(Input):
    outcome: Literal["success", "failure"]
    note: str = Field("", max_length=MAX_REMARK_CHARACTERS)


class OutcomeOut(Schema):
    id: UUID
    outcome: str
    note: str


router = Router(tags=["context"])


@router.post("/context", response={200: ContextOut, **REFUSALS}, summary="Assemble a prompt")
def context_post(request: HttpRequest, payload: ContextIn, agent: AgentSlug = "") -> Any:
    """The prompt for `input`, its sections and the memories in them; the answer is logged under its `id`.

    The input is checked against the censors: `censors` lists those that it triggers, counted once unless it is a dry
    run or a historical context. The client must stop if `censor_verdict` is `block`.
    """
    whose = agent_arguments(request, agent)
    record = context_assemble(payload.as_request(), **whose)
    return raw_json_response(_prompt(record, explain=payload.explain))


@router.post("/context/{run_id}/response", response={200: ResponseOut, **CHANGE_REFUSALS}, summary="Report the answer")
def context_response(request: HttpRequest, run_id: UUID, payload: ResponseIn) -> Any:
    """The included memories that the answer referred to; later searches prefer memories that were used.

    The answer is checked against the censors in force now, and each triggered censor is counted once. The same answer
    again gets the first response; another one is refused.
    """
    by = caller_of(request)
    found = context_respond(run=run_called(by, run_id), response=payload.response, by=by, censors=payload.censors)
    return {"items": found.uses, **_check(found.check)}


@router.post("/context/{run_id}/outcome", response={200: OutcomeOut, **REFUSALS}, summary="Report how it ended")
def context_outcome_post(request: HttpRequest, run_id: UUID, payload: OutcomeIn) -> Any:
    """Success or failure of the task, to be related to the fingerprint of its context."""
    by = caller_of(request)
    run = context_outcome(run=run_called(by, run_id), outcome=payload.outcome, note=payload.note, by=by)
    return {"id": run.pk, "outcome": run.outcome, "note": run.outcome_note}


def _prompt(record: ContextRecord, *, explain: bool) -> dict[str, Any]:
    """The arguments of `ContextOut`, from the record of a context."""
    return {
        "id": record.id,
        "system_prompt": record.system_prompt,
        "tokens": record.tokens,
        "blocks": [block.as_json() for block in record.blocks],
        "sections": [
            {**section, "items": [part_of(ItemOut, {**ITEM_DEFAULTS, **item}) for item in section["items"]]}
            for section in record.sections
        ],
        "truncated": record.truncated,
        "budget": record.budget_tokens,
        "frame": record.decisions["frame"],
        "profile": record.profile_id,
        "fingerprint": record.fingerprint,
        "failed": record.failed_sections,
        "degraded": record.degraded,
        "timings": record.timings,
        "trace_id": trace_id(),
        **_check(record.censors["input"]),
        "explanation": record.decisions if explain else None,
        "candidates": [part_of(CandidateOut, candidate) for candidate in record.candidates] if explain else None,
    }


def _check(check: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the censors for a text, from its logged check."""
    return {
        "censor_verdict": check["verdict"],
        "censor_reason": check["reason"],
        "censors": [
            part_of(TriggeredCensorOut, trigger)
            | {"spans": [{"start": start, "end": end} for start, end in trigger["spans"]]}
            for trigger in effective_triggers(check)
        ],
    }


class FingerprintOut(Derived, of=FingerprintRow, fields="id runs success failure rate low high tokens last about"):
    rate: UnitInterval | None = Field(description="Successes divided by reported outcomes; null while none is reported")
    low: int = Field(description="Percent: the lower end of Wilson's 95 % interval of the rate")
    high: int = Field(description="Percent: its upper end")
    tokens: float = Field(description="Estimated tokens of a prompt, on average")
    last: datetime = Field(description="Time of the last run")
    about: dict[str, Any] = Field(description="The fingerprint of the last run, as `POST /api/context` answered it")


class FingerprintsOut(Schema):
    items: list[FingerprintOut] = Field(description=f"Most runs first, at most {SHOWN}")


@router.get("/fingerprints", response={200: FingerprintsOut, **REFUSALS}, summary="How tasks that are alike ended")
def fingerprints_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    since: Moment | None = Query(None, description="Only runs at or after this time"),
) -> Any:
    """Outcomes by the fingerprint of the context, over the logged runs of the caller's persona.

    Runs are deleted when their retention ends, and are then not counted.
    """
    found, by = agent_called(request, agent)
    outcomes_view_check(found, by)
    return {"items": fingerprints(found, by, moment_check("since", since))}
