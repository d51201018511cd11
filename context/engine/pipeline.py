"""From a request to a prompt: frame, intent, plan, profile, candidates, assembly. Reads only; leaves no trace."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.db import DatabaseError

from context.engine.assembly import Assembly, FixedSection, Rules, assemble
from context.engine.candidates import Found, candidates_find, searched_sections
from context.engine.overrides import NO_OVERRIDES, Overrides
from context.engine.pins import Pins, pins_of
from context.engine.request import ContextRequest
from context.engine.resolved_request import ResolvedRequest, query_analyse, request_resolve
from context.engine.retired import with_retired
from context.engine.sections import fixed_sections
from context.fingerprint import Fingerprint, fingerprint_of
from memory.embedding.query_prefetch import EmbeddingAhead
from memory.persona import PersonaMemory
from memory.search.search import query_embedding

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """All that a prompt can be assembled from, read once: assembling it reads nothing more."""

    decided: ResolvedRequest
    fixed: Sequence[FixedSection]
    found: Found
    failed: Sequence[tuple[str, str]] = ()
    laps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prompt, with what was decided on the way to it. `timings` are milliseconds by stage."""

    decided: ResolvedRequest
    assembly: Assembly
    fingerprint: Fingerprint
    degraded: str = ""
    timings: Mapping[str, float] = field(default_factory=dict)

    def decisions(self) -> dict[str, Any]:
        """What led to the prompt, as it is logged and explained."""
        return {**self.decided.as_json(), "degraded": self.degraded}


def context_prepare(view: PersonaMemory, request: ContextRequest, *, explain: bool = False) -> Prepared:
    """Assemble the prompt for a request from what `view` may read.

    1. Frame, intent and plan from the words of the input.
    2. Profile and budget, the operator's word last.
    3. Fixed sections, each failing alone.
    4. One search for all searched sections; when it fails they are left out and named.
    5. Assembly, which is pure.

    To `explain` it, what was replaced, retired or outranked is looked up too, which changes nothing in the prompt.
    """
    return context_finish(context_load(view, request, explain=explain))


def context_load(
    view: PersonaMemory, request: ContextRequest, *, explain: bool = False, force_include: Sequence[str] = ()
) -> Loaded:
    """Steps 1 to 4 of `context_prepare`: everything that reads.

    Facts whose ids are in `force_include` are searched though their category makes them core memory.
    """
    watch = _Watch()
    read = query_analyse(request)
    # The model computes while the database is asked for all that needs no search.
    embedding = query_embedding(request.input) if read.plan.queries else None
    decided = request_resolve(view.agent, request, read)
    watch.lap("plan")
    pins = pins_of(view.agent, request.as_of)
    fixed = fixed_sections(view, request, read.frame.frame, decided.profile, decided.budget, pins)
    watch.lap("sections")
    found, failed = _found(view, decided, pins, embedding, explain=explain, force_include=force_include)
    watch.lap("search")
    if explain:
        found = with_retired(view, found)
        watch.lap("explain")
    return Loaded(decided, fixed, found, failed, watch.laps)


def context_finish(loaded: Loaded, overrides: Overrides = NO_OVERRIDES) -> Prepared:
    """Assemble what was loaded, as it is or as `overrides` would have it. Pure."""
    watch = _Watch()
    decided = loaded.decided
    request, profile = decided.request, decided.profile
    assembly = assemble(
        overrides.sections(loaded.fixed, profile.excluded_kinds),
        total_budget=decided.budget.total,
        searched=searched_sections(decided.budget),
        candidates=overrides.candidates(loaded.found.candidates),
        rules=Rules(
            query=request.input,
            now=decided.now,
            limits=decided.limits,
            weights=decided.weights,
            preferred_kinds=frozenset(profile.preferred_kinds),
            excluded_kinds=frozenset(profile.excluded_kinds),
            min_importance=profile.min_importance,
            compression=decided.compression,
            head=profile.preserve_head,
            tail=profile.preserve_tail,
            recency_weight=decided.intent.recency,
            files=decided.files,
            tags=frozenset(request.tags),
        ),
        failed=loaded.failed,
    )
    watch.lap("assembly")
    fingerprint = fingerprint_of(
        assembly,
        mode=request.mode or "none",
        frame=decided.frame.frame.id,
        profile=profile.profile_id,
        files=decided.files,
        tags=request.tags,
    )
    stages = {f"search.{name}": round(seconds * 1000, 2) for name, seconds in (loaded.found.timings or {}).items()}
    return Prepared(decided, assembly, fingerprint, loaded.found.degraded, {**loaded.laps, **watch.laps, **stages})


def _found(
    view: PersonaMemory,
    decided: ResolvedRequest,
    pins: Pins,
    embedding: EmbeddingAhead | None,
    *,
    explain: bool,
    force_include: Sequence[str],
) -> tuple[Found, list[tuple[str, str]]]:
    try:
        return candidates_find(view, decided, pins, embedding, explain=explain, force_include=force_include), []
    except DatabaseError:
        logger.exception("context.search_failed")
        return Found(()), [("Search", "It could not be searched.")]


class _Watch:
    """Laps in milliseconds."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round((now - self._last) * 1000, 2)
        self._last = now
