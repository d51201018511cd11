"""From a request to a prompt: frame, intent, plan, profile, candidates, assembly. Reads only; leaves no trace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from django.db import DatabaseError

from context.engine.analysis.request import ContextRequest
from context.engine.analysis.resolved_request import ResolvedRequest, request_resolve
from context.engine.assembly import Candidate, ContestedCandidate, FixedSection, VerdictCode, assemble
from context.engine.assembly.fingerprint import fingerprint_of
from context.engine.overrides import Overrides
from context.engine.record import ContextRecord
from context.engine.retrieval.candidates import (
    NOTHING_SEARCHED,
    candidates_find,
    found_wrong_noted,
    searched_sections,
)
from context.engine.retrieval.censors import CensorInForce, censors_in_force, text_check, text_unchecked
from context.engine.retrieval.contested_facts import contested_load
from context.engine.retrieval.fixed_sections import fixed_sections
from context.engine.retrieval.pins import pins_of
from context.engine.retrieval.retired import with_retired
from memory.persona import PersonaMemory
from memory.search.result import SearchResult
from nousweb.lib.stopwatch import Stopwatch

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ContextMaterial:
    """All that a prompt can be assembled from, read once: assembling it reads nothing more.

    `censors` are None where they could not be read. `failed` are labels and reasons of what else could not
    be, `timings` milliseconds by stage.
    """

    persona: str
    resolved: ResolvedRequest
    fixed: Sequence[FixedSection]
    candidates: Sequence[Candidate]
    search: SearchResult
    censors: Sequence[CensorInForce] | None
    failed: Sequence[tuple[str, str]]
    timings: Mapping[str, float]
    contested: Sequence[ContestedCandidate] = ()


def context_build(view: PersonaMemory, request: ContextRequest) -> ContextRecord:
    """Assemble the prompt for a request from what `view` may read.

    1. Frame, intent and plan from the words of the input; profile and budget, the operator's word last.
    2. Fixed sections, each failing alone.
    3. One search for all searched sections; when it fails they are left out and named.
    4. The facts of both about which a question is open, with what contests them.
    5. Assembly, which is pure.
    6. The check of the input against the censors in force.
    """
    watch, check = Stopwatch("context"), Stopwatch("context")
    with watch.stage("plan"):
        resolved = request_resolve(view, request)
    material = material_load(view, resolved)
    record = record_of(material)
    with check.stage("censors"):
        checked = request.censors == "check"
        found = text_check(request.input, material.censors) if checked else text_unchecked()
    timings = {**watch.milliseconds, **record.timings, **check.milliseconds}
    return replace(record, censors={"input": found}, timings=timings)


def material_load(
    view: PersonaMemory,
    resolved: ResolvedRequest,
    *,
    force_include: Sequence[str] = (),
    others: Sequence[str] = (),
) -> ContextMaterial:
    """Steps 2 to 4 of `context_build`: everything that is read from memory.

    Facts whose ids are in `force_include` are searched though their category makes them core memory. `others` are ids
    of facts that would be shown if something were otherwise.
    """
    watch = Stopwatch("context")
    request = resolved.request
    with watch.stage("sections"):
        pins = pins_of(view.agent, request.as_of, resolved.rows)
        censors = censors_in_force(view, request.as_of, resolved.rows)
        fixed = fixed_sections(view, resolved, pins, censors)
    failed: list[tuple[str, str]] = []
    candidates: Sequence[Candidate]
    with watch.stage("search"):
        try:
            candidates, result = candidates_find(view, resolved, pins, force_include)
        except DatabaseError:
            logger.exception("context.search_failed")
            candidates, result = (), NOTHING_SEARCHED
            failed.append(("Search", "The search failed."))
    contested: Sequence[ContestedCandidate] = ()
    with watch.stage("contested"):
        try:
            contested = contested_load(view, resolved, fixed, candidates, others)
        except DatabaseError:
            logger.exception("context.contested_failed")
            failed.append(("Contested facts", "The contested facts could not be read."))
    if request.explain:
        with watch.stage("explain"):
            candidates = with_retired(view, candidates, result.query)
    timings = watch.milliseconds
    return ContextMaterial(view.persona, resolved, fixed, candidates, result, censors, failed, timings, contested)


def material_after(
    view: PersonaMemory, material: ContextMaterial, overrides: Overrides, others: Sequence[str] = ()
) -> ContextMaterial:
    """What a prompt would be assembled from after a change. Only what the material does not hold is read again: facts
    that only a search of their own can judge, what merged subjects find, and what repeats a fact found wrong.

    Merged subjects must be merged on trial meanwhile.
    """
    if overrides.newly_searched or overrides.merged:
        material = material_load(view, material.resolved, force_include=overrides.newly_searched, others=others)
    if overrides.found_wrong:
        material = replace(material, candidates=found_wrong_noted(view, material.candidates, overrides.found_wrong))
    return material


def record_of(material: ContextMaterial, overrides: Overrides | None = None) -> ContextRecord:
    """The prompt that the material makes, as it is or as `overrides` would have it, with all that led to it. Pure."""
    watch = Stopwatch("context")
    resolved, request = material.resolved, material.resolved.request
    fixed, candidates, contested = material.fixed, material.candidates, material.contested
    with watch.stage("assembly"):
        if overrides is not None:
            fixed = overrides.sections(fixed, resolved.profile.excluded_kinds, request.scope)
            candidates = overrides.candidates(candidates)
            hits = ((one, one.candidate.hit) for one in overrides.contested(contested))
            contested = [one for one, hit in hits if request.scope.shows(hit.project, hit.task)]
        assembly = assemble(fixed, searched_sections(resolved.budget), candidates, resolved, contested)
    fingerprint = fingerprint_of(
        [verdict.candidate for verdict in assembly.verdicts if verdict.code == VerdictCode.INCLUDED],
        tokens=assembly.tokens,
        compression=assembly.compression_ratio,
        mode=request.mode or "none",
        frame=resolved.analysis.frame.frame.id,
        profile=resolved.profile.profile_id + ("+override" if request.profile_override else ""),
        files=resolved.files,
        tags=request.tags,
    )
    stages = {f"search.{name}": round(seconds * 1000, 2) for name, seconds in material.search.timings.items()}
    return ContextRecord(
        persona=material.persona,
        request=request.as_json(),
        system_prompt=assembly.system_prompt,
        tokens=assembly.tokens,
        budget_tokens=resolved.budget.total,
        sections=[section.as_json() for section in assembly.sections],
        candidates=[verdict.as_json() for verdict in assembly.verdicts],
        decisions={
            **resolved.as_json(),
            "degraded": material.search.degraded,
            "truncated": [one.as_json() for one in assembly.truncations],
        },
        fingerprint=fingerprint.as_json(),
        failed_sections=[
            *([section.label, section.error] for section in fixed if section.error),
            *(list(failure) for failure in material.failed),
        ],
        timings={**material.timings, **watch.milliseconds, **stages},
        as_of=request.as_of,
    )
