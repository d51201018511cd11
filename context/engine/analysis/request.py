"""A request to the context engine, from the API, the inspector or a replay, and the decisions about it before any
memory is read; retrieval and assembly depend on them alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Self
from zoneinfo import ZoneInfo

from django.conf import settings

from context.engine.analysis.agent_data_loader import (
    NO_SESSION,
    PreloadedRows,
    SessionState,
    agent_rows,
    profile_query,
    session_load,
)
from context.engine.analysis.agent_time import (
    NO_TIME,
    LineClock,
    RecentMode,
    TimeReading,
    agent_time_read,
    recent_mode,
    zone_check,
    zone_of,
)
from context.engine.analysis.frames import (
    FRAMES,
    SECTION_BUDGETS,
    ContextBudget,
    FrameSelection,
    RetrievalPlan,
    budget_for,
    frame_select,
    plan_retrieval,
)
from context.engine.analysis.intent import IntentSignals, intent_read
from context.engine.analysis.profiles import (
    MODE_WEIGHTS,
    TOOL_OUTPUT,
    ContestedPolicy,
    Profile,
    active_profile,
    compression_of,
    override_check,
    profile_named,
    profile_overridden,
    tier_weights,
)
from context.engine.section_budgets import MAX_TOTAL, MEMORY_SECTIONS, PLANNED_TYPES
from identity.models import Agent
from identity.selectors import agent_as_of
from memory.embedding.query_prefetch import PrefetchedEmbedding
from memory.models import KEYS, ProjectScope
from memory.persona import PersonaMemory
from memory.policy import MAX_SESSION_CHARACTERS
from nousweb.lib import Invalid, choice_check, clock, first_unstorable, moment_check, whole_check
from nousweb.lib.bounds import MAX_TAGS

MAX_INPUT_CHARACTERS = 100_000
MAX_MESSAGES = 200
CENSOR_MODES = ["check", "off"]
NOT_LOGGED = ("dry_run", "explain", "scope")
"""Fields that change nothing in the prompt, or follow from others."""


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """A request to the engine; everything but the session and the input is optional.

    `budget` is the total in tokens; `budgets` are the operator's own by section, which win. `mode` and `tags` describe
    the task, `files` are its files besides those in the input. `as_of` requests the past. `profile_override` holds
    settings that replace the profile's own for this request. With `fill`, less certain memories use the rest of the
    budget. `project`, `task` and `user` are the keys of the task: nothing of another user is shown, and nothing of
    another project or task, unless `include_projects` or `all_projects` request it (`memory.models.project_scope`).
    `censors` is "check", or "off" if the client wants no check. `time_zone` is the IANA name of the user's; "" is that
    of the agent. `scope` follows from these: whose memory the prompt may show. With `dry_run` nothing is stored; with
    `explain`, replaced, retired and outranked memories are looked up too. Raises Invalid, naming the field.
    """

    session_id: str
    input: str
    frame: str | None = None
    profile: str | None = None
    profile_override: Mapping[str, Any] = field(default_factory=dict)
    conversation: tuple[Message, ...] = ()
    mode: str | None = None
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    budget: int | None = None
    budgets: Mapping[str, int] = field(default_factory=dict)
    fill: bool = False
    as_of: datetime | None = None
    censors: str = "check"
    dry_run: bool = False
    explain: bool = False
    project: str = ""
    task: str = ""
    user: str = ""
    include_projects: tuple[str, ...] = ()
    all_projects: bool = False
    time_zone: str = ""
    scope: ProjectScope = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if reason := first_unstorable(self.as_json()):
            raise Invalid(reason, field="input")
        if not 1 <= len(self.session_id) <= MAX_SESSION_CHARACTERS:
            raise Invalid(f"session_id must have 1 to {MAX_SESSION_CHARACTERS} characters.", field="session_id")
        if len(self.input) > MAX_INPUT_CHARACTERS:
            raise Invalid(
                f"input holds at most {MAX_INPUT_CHARACTERS:,} characters; this has {len(self.input):,}.", field="input"
            )
        if self.frame is not None:
            choice_check("frame", self.frame, [*FRAMES])
        if self.mode is not None:
            choice_check("mode", self.mode, [*MODE_WEIGHTS])
        object.__setattr__(self, "profile_override", override_check(self.profile_override))
        choice_check("censors", self.censors, CENSOR_MODES)
        zone_check(self.time_zone)
        if len(self.conversation) > MAX_MESSAGES:
            raise Invalid(f"conversation holds at most {MAX_MESSAGES} messages.", field="conversation")
        if any(len(message.content) > MAX_INPUT_CHARACTERS for message in self.conversation):
            raise Invalid(f"A message holds at most {MAX_INPUT_CHARACTERS:,} characters.", field="conversation")
        for name, given in (("tags", self.tags), ("files", self.files)):
            if len(given) > MAX_TAGS:
                raise Invalid(f"{name} holds at most {MAX_TAGS} entries; this has {len(given):,}.", field=name)
        scope = ProjectScope(self.project, self.task, self.include_projects, self.all_projects, self.user)
        object.__setattr__(self, "scope", scope)
        for name in (*KEYS, "include_projects"):
            object.__setattr__(self, name, getattr(scope, name))
        object.__setattr__(self, "as_of", moment_check("as_of", self.as_of))
        if self.as_of is not None and self.as_of > clock.now():
            raise Invalid("as_of is in the future.", field="as_of")
        if self.budget is not None:
            whole_check("budget", self.budget, 1, MAX_TOTAL)
        for name, tokens in self.budgets.items():
            if name not in SECTION_BUDGETS:
                raise Invalid(
                    f"There is no section {name[:60]!r}; they are {', '.join(SECTION_BUDGETS)}.", field="budgets"
                )
            if not 0 <= tokens <= MAX_TOTAL:
                raise Invalid(f"The budget of {name} must be between 0 and {MAX_TOTAL:,} tokens.", field="budgets")

    def as_json(self) -> dict[str, Any]:
        """The request as it is logged, without options that do not change its prompt; `of_json` reads it back."""
        return {
            **{one.name: getattr(self, one.name) for one in fields(self) if one.name not in NOT_LOGGED},
            "conversation": [{"role": message.role, "content": message.content} for message in self.conversation],
            "tags": list(self.tags),
            "files": list(self.files),
            "include_projects": list(self.include_projects),
            "budgets": dict(self.budgets),
            "profile_override": dict(self.profile_override),
            "as_of": self.as_of.isoformat() if self.as_of else None,
        }

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Self:
        """A request as the API takes it or as it was logged; fields that it lacks have their defaults.

        Raises KeyError without session or input.
        """
        given: dict[str, Any] = {"session_id": values["session_id"], "input": values["input"]}
        given |= {one.name: values[one.name] for one in fields(cls) if one.init and values.get(one.name) is not None}
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        messages: Sequence[Mapping[str, str]] = values.get("conversation") or ()
        given["conversation"] = tuple(Message(message["role"], message["content"]) for message in messages)
        if isinstance(moment := given.get("as_of"), str):
            given["as_of"] = datetime.fromisoformat(moment)
        return cls(**given)


TOKENS_PER_SCALE = 500
"""An explicit budget above this increases the plan's numbers of items in proportion: those numbers fill about as many
tokens with memories of ordinary length. Thresholds still keep out irrelevant items."""
FILL_TOKENS = 250
"""With `fill` thresholds fall in proportion to a budget beyond this, so that small budgets are used up as well."""

TOOL_OUTPUTS = 5
"""Most outputs of tools that are shown for being recent."""


@dataclass(frozen=True, slots=True)
class QueryAnalysis:
    """The analysis of the input's words alone."""

    frame: FrameSelection
    intent: IntentSignals
    plan: RetrievalPlan


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """All decisions before memory is read.

    `now` is the moment from which ages count, for a context of the past that of the past. `scale` multiplies the usual
    number of items, 1 or more; `limits` are items by type, `weights` shares by scope. `zone` is the user's, `recent`
    says when the last conversations are listed. `embedding` is the pending vector of the input, None if nothing is
    searched. `rows` are the rows of the agent that are loaded already, None if each must be loaded by itself.
    """

    request: ContextRequest
    analysis: QueryAnalysis
    now: datetime
    profile: Profile
    profile_version: int
    weights: Mapping[str, float]
    files: tuple[str, ...]
    scale: float
    limits: Mapping[str, int]
    budget: ContextBudget
    session: SessionState = NO_SESSION
    contested: ContestedPolicy = field(default_factory=ContestedPolicy)
    embedding: PrefetchedEmbedding | None = None
    rows: PreloadedRows | None = None
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo(settings.TIME_ZONE))
    recent: RecentMode = RecentMode.ON_QUESTIONS

    @property
    def thresholds_divisor(self) -> float:
        """Divides the thresholds: 1 unless the request has `fill`."""
        return max(1.0, self.budget.total / FILL_TOKENS) if self.request.fill else 1.0

    @property
    def clock(self) -> LineClock:
        """By which the lines are dated."""
        return LineClock(self.now, self.zone)

    def with_budgets(self, budgets: Mapping[str, int]) -> Self:
        """The same with other budgets in the agent's settings."""
        return replace(self, budget=_budget(self.request, self.analysis, budgets))

    @property
    def compression(self) -> float:
        """Share of a long item that may be left out, 0 to 1."""
        return compression_of(self.profile, self.request.mode)

    @property
    def dates(self) -> str:
        """Today and the time that the input asks about, for a model that cannot know what "yesterday" is; "" if it
        asks about none, so that prompts of other inputs stay the same from day to day."""
        period = self.analysis.intent.time.period
        today = self.now.astimezone(self.zone)
        return f"Today is {today:%Y-%m-%d}. The input asks about this time: {period}." if period else ""

    def _time_as_json(self) -> dict[str, str | None] | None:
        """The period that is asked about, in the user's time."""
        if (period := self.analysis.intent.time.period) is None:
            return None
        start, end = (one.isoformat() if one else None for one in (period.start, period.end))
        return {"text": period.text, "start": start, "end": end}

    def as_json(self) -> dict[str, Any]:
        """The decisions as they are logged and explained."""
        frame, intent, plan = self.analysis.frame, self.analysis.intent, self.analysis.plan
        return {
            "frame": {
                "id": frame.frame.id,
                "label": frame.frame.label,
                "confidence": round(frame.confidence, 2),
                "hits": list(frame.hits),
                "forced": frame.forced,
                "source": frame.source,
            },
            "intent": {
                "recency": intent.time.recency,
                "time": self._time_as_json(),
                "hints": dict(intent.hints),
                "kind": intent.kind.name,
                "is_question": intent.is_question,
                "is_greeting": intent.is_greeting,
                "entities": list(intent.entities),
                "topic_keywords": list(intent.topic_keywords),
            },
            "plan": {
                "reason": plan.reason,
                "limits": dict(self.limits),
                "skip_types": sorted(plan.skip_types),
                "budget_overrides": dict(plan.budget_overrides),
            },
            "profile": {
                "id": self.profile.profile_id,
                "version": self.profile_version,
                **({"override": dict(self.request.profile_override)} if self.request.profile_override else {}),
            },
            "policy": {
                "mode": self.request.mode,
                "weights": {scope: round(weight, 3) for scope, weight in self.weights.items()},
                "files": list(self.files),
                "tags": list(self.request.tags),
                "project": self.request.project,
                "task": self.request.task,
                "user": self.request.user,
                "excluded_kinds": list(self.profile.excluded_kinds),
                "preferred_kinds": list(self.profile.preferred_kinds),
                "min_importance": self.profile.min_importance,
                "least_trust": list(self.profile.least_trust),
                "compression": self.compression,
                "contested": self.contested.as_json(),
            },
            "budget": {
                "total": self.budget.total,
                "sections": dict(self.budget.sections),
                "fill": self.request.fill,
            },
        }


def query_analyse(
    request: ContextRequest, session: SessionState = NO_SESSION, time: TimeReading = NO_TIME
) -> QueryAnalysis:
    """Frame and intent from the words of the input, with what they say about a time, and their plan. Pure.

    The request, or working memory of the session, may name the frame too.
    """
    frame = frame_select(request.input, request.frame, session.frame)
    intent = intent_read(request.input, frame.frame.id, time)
    return QueryAnalysis(frame, intent, plan_retrieval(intent, request.input, frame_is_sure=frame.confidence > 0))


def request_resolve(view: PersonaMemory, request: ContextRequest) -> ResolvedRequest:
    """Analyse the input and the session's working memory, then determine profile, limits and budget; the operator's
    settings win.

    Raises NotFound for an unknown profile.
    """
    agent, now = view.agent, request.as_of or clock.now()
    if request.as_of:
        agent = agent_as_of(agent, request.as_of)
    zone = zone_of(agent, request.time_zone)
    time = agent_time_read(view, request.input, request.scope, now=now, zone=zone, as_of=request.as_of)
    analysis = query_analyse(request, time=time)
    # The model computes while the database is asked for all that needs no search.
    asker = agent.pk, view.persona
    embedding = PrefetchedEmbedding(analysis.plan.text, asker) if analysis.plan.queries else None
    rows = None
    if not request.as_of:
        wanted = profile_query(profile_named(agent, request.profile), agent.kind)
        rows = agent_rows(view, request.session_id, wanted, request.scope, now)
    # Nothing is kept of what was in mind in the past.
    past = request.as_of is not None
    session = NO_SESSION if past else session_load(view, request.session_id, request.scope, rows)
    if session.frame:
        analysis = query_analyse(request, session, time)
    profile, version = active_profile(agent, request.profile, request.as_of, rows)
    profile = profile_overridden(profile, request.profile_override)
    scale = max(1.0, request.budget / TOKENS_PER_SCALE) if request.budget else 1.0
    budget = _budget(request, analysis, agent_budgets(agent))
    return ResolvedRequest(
        request,
        analysis,
        now,
        profile,
        version,
        weights=tier_weights(profile, request.mode),
        files=tuple(dict.fromkeys([*request.files, *analysis.intent.files])),
        scale=scale,
        limits=limits_of(analysis.plan, profile, scale=scale),
        budget=budget,
        session=session,
        contested=ContestedPolicy.of_config(agent.config),
        zone=zone,
        recent=recent_mode(agent),
        embedding=embedding,
        rows=rows,
    )


def _budget(request: ContextRequest, analysis: QueryAnalysis, own: Mapping[str, int]) -> ContextBudget:
    """The budget of a request to an agent with budgets of its `own`."""
    return budget_for(
        analysis.frame.frame.id,
        plan_overrides=analysis.plan.budget_overrides,
        operator_overrides={**own, **request.budgets},
        total=request.budget,
    )


def limits_of(plan: RetrievalPlan, profile: Profile, *, scale: float = 1.0) -> dict[str, int]:
    """Items by type: from the plan, and for raw layers from the profile. `scale` is for larger budgets."""
    limits = {memory_type: plan.limit_of(memory_type) for memory_type in PLANNED_TYPES}
    if plan.queries:
        raw = ((key, one) for key, one in MEMORY_SECTIONS.items() if one.layer)
        limits |= {key: one.layer_limit for key, one in raw if one.layer in profile.layers}
        if TOOL_OUTPUT in profile.layers:
            limits["event"] = max(limits.get("event", 0), TOOL_OUTPUTS)
    return {memory_type: round(limit * scale) for memory_type, limit in limits.items() if limit}


def agent_budgets(agent: Agent) -> dict[str, int]:
    """The operator's budgets in the agent's configuration; anything but a whole number is passed over."""
    given = agent.config.get("budgets")
    if not isinstance(given, dict):
        return {}
    return {str(name): tokens for name, tokens in given.items() if isinstance(tokens, int) and tokens >= 0}
