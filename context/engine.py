"""From a request to a prompt: frame, intent, plan, profile, candidates, assembly. Reads only; leaves no trace."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog
from django.db import DatabaseError

from context.assembly import Assembly, FixedSection, Rules, assemble
from context.budget import ContextBudget, budget_for
from context.candidates import Found, candidates_find, limits_of, searched_sections
from context.fingerprint import Fingerprint, fingerprint_of
from context.frames import FrameSelection, frame_select
from context.intent import IntentSignals, intent_read
from context.overrides import NO_OVERRIDES, Overrides
from context.pins import Pins, pins_of
from context.plan import RetrievalPlan, plan_retrieval
from context.profiles import Profile, compression_of, mentioned_files, tier_weights
from context.request import ContextRequest
from context.retired import with_retired
from context.sections import fixed_sections
from context.services.profiles import profile_in_force
from identity.models import Agent
from identity.selectors import agent_as_of
from memory.embedding.ahead import EmbeddingAhead
from memory.persona import PersonaMemory
from memory.search.search import query_embedding
from nousweb.lib import clock

logger = structlog.get_logger(__name__)

TOKENS_PER_SCALE = 500
"""An explicit budget beyond this asks for more items than the plan's numbers, in proportion: those numbers fill about
as many tokens with memories of ordinary length. Thresholds keep out what is not worth its room."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that was decided on the way to a prompt. `timings` are milliseconds by stage."""

    request: ContextRequest
    frame: FrameSelection
    intent: IntentSignals
    plan: RetrievalPlan
    profile: Profile
    profile_version: int
    weights: Mapping[str, float]
    files: tuple[str, ...]
    limits: Mapping[str, int]
    budget: ContextBudget
    assembly: Assembly
    fingerprint: Fingerprint
    degraded: str = ""
    timings: Mapping[str, float] = field(default_factory=dict)

    def decisions(self) -> dict[str, Any]:
        """What led to the prompt, as it is logged and explained."""
        return {
            "frame": {
                "id": self.frame.frame.id,
                "label": self.frame.frame.label,
                "confidence": round(self.frame.confidence, 2),
                "hits": list(self.frame.hits),
                "forced": self.frame.forced,
            },
            "intent": {
                "recency": self.intent.recency,
                "hints": dict(self.intent.hints),
                "is_question": self.intent.is_question,
                "is_greeting": self.intent.is_greeting,
                "entities": list(self.intent.entities),
                "topic_keywords": list(self.intent.topic_keywords),
            },
            "plan": {
                "reason": self.plan.reason,
                "limits": dict(self.limits),
                "skip_types": sorted(self.plan.skip_types),
                "budget_overrides": dict(self.plan.budget_overrides),
            },
            "profile": {"id": self.profile.profile_id, "version": self.profile_version},
            "policy": {
                "mode": self.request.mode,
                "weights": {scope: round(weight, 3) for scope, weight in self.weights.items()},
                "files": list(self.files),
                "tags": list(self.request.tags),
                "excluded_kinds": list(self.profile.excluded_kinds),
                "preferred_kinds": list(self.profile.preferred_kinds),
                "min_importance": self.profile.min_importance,
                "compression": compression_of(self.profile, self.request.mode),
            },
            "budget": {"total": self.budget.total, "sections": dict(self.budget.sections)},
            "degraded": self.degraded,
        }


@dataclass(frozen=True, slots=True)
class Loaded:
    """All that a prompt can be assembled from, read once: assembling it reads nothing more."""

    request: ContextRequest
    now: datetime
    frame: FrameSelection
    intent: IntentSignals
    plan: RetrievalPlan
    profile: Profile
    profile_version: int
    weights: Mapping[str, float]
    files: tuple[str, ...]
    limits: Mapping[str, int]
    budget: ContextBudget
    fixed: Sequence[FixedSection]
    found: Found
    failed: Sequence[tuple[str, str]] = ()
    laps: Mapping[str, float] = field(default_factory=dict)


def context_prepare(view: PersonaMemory, request: ContextRequest, *, explain: bool = False) -> Prepared:
    """Assemble the prompt for a request from what `view` may read.

    1. Frame and intent from the words of the input.
    2. Plan, profile and budget, the operator's word last.
    3. Fixed sections, each failing alone.
    4. One search for all searched sections; when it fails they are left out and named.
    5. Assembly, which is pure.

    To `explain` it, what was replaced, retired or outranked is looked up too, which changes nothing in the prompt.
    """
    return context_finish(context_load(view, request, explain=explain))


def context_load(
    view: PersonaMemory, request: ContextRequest, *, explain: bool = False, also: Sequence[str] = ()
) -> Loaded:
    """Steps 1 to 4 of `context_prepare`: everything that reads.

    Facts whose ids are in `also` are searched though they are filed as always told.
    """
    watch = _Watch()
    now = request.as_of or clock.now()
    frame = frame_select(request.input, request.frame)
    intent = intent_read(request.input, frame.frame.id)
    plan = plan_retrieval(intent, request.input, frame_is_sure=frame.confidence > 0)
    # The model computes while the database is asked for all that needs no search.
    embedding = query_embedding(request.input) if plan.queries else None
    agent = agent_as_of(view.agent, request.as_of) if request.as_of else view.agent
    profile, profile_version = profile_in_force(agent, request.profile, request.as_of)
    budget = budget_for(
        frame.frame.id,
        plan_overrides=plan.budget_overrides,
        operator_overrides={**_agent_budgets(agent), **request.budgets},
        total=request.budget,
    )
    files = tuple(dict.fromkeys([*request.files, *mentioned_files(request.input)]))
    scale = max(1.0, request.budget / TOKENS_PER_SCALE) if request.budget else 1.0
    limits = limits_of(plan, profile, scale=scale)
    weights = tier_weights(profile, request.mode)
    watch.lap("plan")
    pins = pins_of(view.agent, request.as_of)
    fixed = fixed_sections(view, request, frame.frame, profile, budget, pins)
    watch.lap("sections")
    found, failed = _found(view, request, plan, limits, budget, now, pins, scale, embedding, explain, also)
    watch.lap("search")
    if explain:
        found = with_retired(view, found)
        watch.lap("explain")
    return Loaded(
        request,
        now,
        frame,
        intent,
        plan,
        profile,
        profile_version,
        weights,
        files,
        limits,
        budget,
        fixed,
        found,
        failed,
        watch.laps,
    )


def context_finish(loaded: Loaded, overrides: Overrides = NO_OVERRIDES) -> Prepared:
    """Assemble what was loaded, as it is or as `overrides` would have it. Pure."""
    watch = _Watch()
    request, profile = loaded.request, loaded.profile
    assembly = assemble(
        overrides.sections(loaded.fixed, profile.excluded_kinds),
        total_budget=loaded.budget.total,
        searched=searched_sections(loaded.budget),
        candidates=overrides.candidates(loaded.found.candidates),
        rules=Rules(
            query=request.input,
            now=loaded.now,
            limits=loaded.limits,
            weights=loaded.weights,
            preferred_kinds=frozenset(profile.preferred_kinds),
            excluded_kinds=frozenset(profile.excluded_kinds),
            min_importance=profile.min_importance,
            compression=compression_of(profile, request.mode),
            head=profile.preserve_head,
            tail=profile.preserve_tail,
            recency_weight=loaded.intent.recency,
            files=loaded.files,
            tags=frozenset(request.tags),
        ),
        failed=loaded.failed,
    )
    watch.lap("assembly")
    fingerprint = fingerprint_of(
        assembly,
        mode=request.mode or "none",
        frame=loaded.frame.frame.id,
        profile=profile.profile_id,
        files=loaded.files,
        tags=request.tags,
    )
    stages = {f"search.{name}": round(seconds * 1000, 2) for name, seconds in (loaded.found.timings or {}).items()}
    return Prepared(
        request,
        loaded.frame,
        loaded.intent,
        loaded.plan,
        profile,
        loaded.profile_version,
        loaded.weights,
        loaded.files,
        loaded.limits,
        loaded.budget,
        assembly,
        fingerprint,
        loaded.found.degraded,
        {**loaded.laps, **watch.laps, **stages},
    )


def _found(
    view: PersonaMemory,
    request: ContextRequest,
    plan: RetrievalPlan,
    limits: Mapping[str, int],
    budget: ContextBudget,
    now: datetime,
    pins: Pins,
    scale: float,
    embedding: EmbeddingAhead | None,
    explain: bool,
    also: Sequence[str],
) -> tuple[Found, list[tuple[str, str]]]:
    try:
        found = candidates_find(
            view,
            request,
            plan,
            limits,
            window=budget.window,
            now=now,
            scale=scale,
            pins=pins,
            embedding=embedding,
            explain=explain,
            also=also,
        )
        return found, []
    except DatabaseError:
        logger.exception("context.search_failed")
        return Found(()), [("Search", "It could not be searched.")]


def _agent_budgets(agent: Agent) -> dict[str, int]:
    """The operator's budgets in the agent's configuration; anything but a whole number is passed over."""
    given = agent.config.get("budgets")
    if not isinstance(given, dict):
        return {}
    return {str(name): tokens for name, tokens in given.items() if isinstance(tokens, int) and tokens >= 0}


class _Watch:
    """Laps in milliseconds."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round((now - self._last) * 1000, 2)
        self._last = now
