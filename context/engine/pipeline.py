"""From a request to a prompt: frame, intent, plan, profile, candidates, assembly. Reads only; leaves no trace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from django.db import DatabaseError

from context.engine.analysis.request import ContextRequest, ResolvedRequest, request_resolve
from context.engine.assembly import Candidate, ContestedCandidate, FixedSection, VerdictCode, assemble
from context.engine.context_record import ContextRecord, fingerprint_of
from context.engine.overrides import Overrides
from context.engine.retrieval.candidate_dates import told_of
from context.engine.retrieval.candidates import (
    NOTHING_SEARCHED,
    annotate_invalidated,
    candidate_of,
    candidates_find,
    searched_sections,
)
from context.engine.retrieval.censors import ActiveCensor, active_censors, censors_check, check_skipped
from context.engine.retrieval.fixed_sections import fixed_sections, pins_of, profile_rank
from context.engine.retrieval.retired_memories import with_retired
from context.engine.retrieval.seeded_preferences import tried_without_fact_copies
from memory.persona import PersonaMemory
from memory.search.contested_facts import contested_facts
from memory.search.result import SearchResult
from nousweb.lib.tracing import Stopwatch


def contested_load(
    view: PersonaMemory,
    resolved: ResolvedRequest,
    fixed: Sequence[FixedSection],
    candidates: Sequence[Candidate],
    others: Sequence[str] = (),
) -> tuple[ContestedCandidate, ...]:
    """The contested facts among those that a prompt may show, with all facts that contest them.

    `others` are ids of further facts, which hypothetical changes would show. Facts are not looked up if it is known
    from loading them that no review of them is pending.
    """
    request, rows = resolved.request, resolved.rows
    core = {item.id for section in fixed for item in section.items if item.type == "fact"}
    found = [
        candidate.hit for candidate in candidates if candidate.hit.type == "fact" and candidate.hit.retirement is None
    ]
    if request.as_of is None:
        core -= rows.uncontested_core_ids if rows else set()
        found = [hit for hit in found if hit.has_pending_review is not False]
    keys = [*core, *(hit.id for hit in found), *others]
    contesting = contested_facts(view, request.scope, keys, request.as_of, now=resolved.now)
    return tuple(
        ContestedCandidate(
            candidate_of(one.hit, told=told_of(one.hit, resolved.clock)),
            partners=one.partners,
            since=one.since,
            endorsed=one.endorsed,
            opposed=one.opposed,
            undecided=one.undecided,
            core_priority=profile_rank(one.endorsed, one.hit.category),
        )
        for one in contesting
    )


logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ContextInputs:
    """All inputs of a prompt, loaded once: assembly reads nothing more.

    `censors` is None if they could not be loaded. `failed` are labels and reasons of the other parts that could not
    be loaded, `timings` milliseconds by stage.
    """

    persona: str
    resolved: ResolvedRequest
    fixed: Sequence[FixedSection]
    candidates: Sequence[Candidate]
    search: SearchResult
    censors: Sequence[ActiveCensor] | None
    failed: Sequence[tuple[str, str]]
    timings: Mapping[str, float]
    contested: Sequence[ContestedCandidate] = ()


def context_build(
    view: PersonaMemory, request: ContextRequest, identity: Mapping[str, str] | None = None
) -> ContextRecord:
    """Assemble the prompt for a request from the memories that `view` may read, with other texts of `identity` sections
    if they are given.

    1. Frame, intent and plan from the words of the input; profile and budget, in which the operator's settings win.
    2. Fixed sections, each of which may fail alone.
    3. One search for all searched sections. If it fails, they are left out and named.
    4. The contested facts of both, with the facts that contest them.
    5. Assembly, which is pure.
    6. The check of the input against the active censors.
    """
    watch, check = Stopwatch("context"), Stopwatch("context")
    with watch.stage("plan"):
        resolved = request_resolve(view, request)
    inputs = context_inputs_load(view, resolved)
    tried = Overrides(identity=tried_without_fact_copies(view.agent.pk, identity)) if identity else None
    record = build_record(inputs, tried)
    with check.stage("censors"):
        checked = request.censors == "check"
        found = censors_check(request.input, inputs.censors) if checked else check_skipped()
    timings = {**watch.milliseconds, **record.timings, **check.milliseconds}
    return replace(record, censors={"input": found}, timings=timings)


def context_inputs_load(
    view: PersonaMemory,
    resolved: ResolvedRequest,
    *,
    force_include: Sequence[str] = (),
    others: Sequence[str] = (),
) -> ContextInputs:
    """Steps 2 to 4 of `context_build`: all reads from memory.

    Facts whose ids are in `force_include` are searched even if their category makes them core memory. `others` are ids
    of further facts, which hypothetical changes would show.
    """
    watch = Stopwatch("context")
    request = resolved.request
    with watch.stage("sections"):
        pins = pins_of(view.agent, request.as_of, resolved.rows)
        censors = active_censors(view, request.as_of, resolved.rows)
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
            failed.append(("Contradicted facts", "The contradicted facts could not be read."))
    if request.explain:
        with watch.stage("explain"):
            candidates = with_retired(view, candidates, result.query)
    timings = watch.milliseconds
    return ContextInputs(view.persona, resolved, fixed, candidates, result, censors, failed, timings, contested)


def context_inputs_with(
    view: PersonaMemory, inputs: ContextInputs, overrides: Overrides, others: Sequence[str] = ()
) -> ContextInputs:
    """The inputs of a prompt after a change. Only missing parts are read again: facts that need a search of their own,
    facts of merged subjects, all that has other budgets, and memories that repeat an invalidated fact.

    The caller must run it within `subjects_merged_in_dry_run`.
    """
    resolved = inputs.resolved if overrides.budgets is None else inputs.resolved.with_budgets(overrides.budgets)
    if overrides.newly_searched or overrides.merged or resolved is not inputs.resolved:
        inputs = context_inputs_load(view, resolved, force_include=overrides.newly_searched, others=others)
    if overrides.invalidated:
        inputs = replace(inputs, candidates=annotate_invalidated(view, inputs.candidates, overrides.invalidated))
    return inputs


def build_record(inputs: ContextInputs, overrides: Overrides | None = None) -> ContextRecord:
    """Assemble the prompt of these inputs, or of the inputs after `overrides`, with all decisions behind it. Pure."""
    watch = Stopwatch("context")
    resolved, request = inputs.resolved, inputs.resolved.request
    fixed, candidates, contested = inputs.fixed, inputs.candidates, inputs.contested
    with watch.stage("assembly"):
        if overrides is not None:
            fixed = overrides.sections(fixed, resolved.clock, resolved.profile.excluded_kinds, request.scope)
            candidates = overrides.candidates(candidates, resolved.clock)
            hits = (
                (contesting, contesting.candidate.hit) for contesting in overrides.contested(contested, resolved.clock)
            )
            contested = [one for one, hit in hits if request.scope.shows(hit)]
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
    stages = {f"search.{name}": round(seconds * 1000, 2) for name, seconds in inputs.search.timings.items()}
    return ContextRecord(
        persona=inputs.persona,
        request=request.as_json(),
        system_prompt=assembly.system_prompt,
        tokens=assembly.tokens,
        budget_tokens=resolved.budget.total,
        sections=[section.as_json() for section in assembly.sections],
        candidates=[verdict.as_json() for verdict in assembly.verdicts],
        decisions={
            **resolved.as_json(),
            "degraded": inputs.search.degraded,
            "truncated": [truncation.as_json() for truncation in assembly.truncations],
        },
        fingerprint=fingerprint.as_json(),
        failed_sections=[
            *([section.label, section.error] for section in fixed if section.error),
            *(list(failure) for failure in inputs.failed),
        ],
        timings={**inputs.timings, **watch.milliseconds, **stages},
        as_of=request.as_of,
    )
