"""Checking expectations: each question is asked of the real engine, and leaves no trace."""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

import structlog
from django.db import DatabaseError

from context.engine.analysis.request import ContextRequest
from context.engine.analysis.resolved_request import ResolvedRequest, request_resolve
from context.engine.assembly.overrides import PROPOSED, Overrides
from context.engine.pipeline import ContextMaterial, material_load, record_of
from context.engine.record import ContextRecord
from context.expectations.policy import LOOKED_AHEAD
from context.expectations.requirements import Outcome, Surroundings, error_outcome, facts_in, outcome_of
from context.expectations.targets import subjects_load, targets_load
from context.models import Expectation
from memory.embedding import EmbeddingFailed
from memory.persona import PersonaMemory
from nousweb.lib.errors import DomainError

logger = structlog.get_logger(__name__)

FAILURES = (DomainError, EmbeddingFailed, DatabaseError, KeyError, ValueError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Check:
    """An expectation with what came of it; `record` is the prompt, None where there is none."""

    expectation: Expectation
    outcome: Outcome
    record: ContextRecord | None = None


@dataclass(frozen=True, slots=True)
class ImpactCheck:
    """An expectation with what comes of it today, and what would under a change."""

    expectation: Expectation
    before: Check
    after: Check


def expectations_check(view: PersonaMemory, expectations: Sequence[Expectation]) -> Iterator[Check]:
    """Ask each question now, through one persona's view, and judge the prompt. Expectations with the same request
    share it. What cannot be asked is an error."""
    targets = targets_load(view, expectations)
    for group, material in _materials(view, expectations):
        if isinstance(material, Outcome):
            yield from (Check(one, material) for one in group)
            continue
        record = record_of(material)
        known = Surroundings(targets, _subjects(view, group, record))
        yield from (Check(one, outcome_of(one, record, known), record) for one in group)


def expectations_impact(
    view: PersonaMemory, expectations: Sequence[Expectation], overrides: Overrides
) -> Iterator[ImpactCheck]:
    """The same with and without a change under consideration, one loading for both."""
    overrides = overrides.seen_by(view.personas)
    targets = targets_load(view, expectations)
    others = list(overrides.metadata)
    for group, material in _materials(view, expectations, others):
        if isinstance(material, Outcome):
            yield from (ImpactCheck(one, Check(one, material), Check(one, material)) for one in group)
            continue
        before = record_of(material)
        after = _record_after(view, material, overrides, others)
        subjects = _subjects(view, group, before)
        known = Surroundings(targets, subjects)
        for one in group:
            first = Check(one, outcome_of(one, before, known), before)
            if isinstance(after, Outcome):
                yield ImpactCheck(one, first, Check(one, after))
                continue
            changed = Surroundings(
                targets,
                {**subjects, **_subjects(view, group, after), **_proposed_subject(overrides)},
                frozenset(overrides.facts),
            )
            yield ImpactCheck(one, first, Check(one, outcome_of(one, after, changed), after))


def check_as_of(view: PersonaMemory, expectation: Expectation, moment: datetime) -> Outcome:
    """What came of an expectation at a moment of the past, as far as the past can be rebuilt."""
    try:
        request = replace(ContextRequest.of_json(expectation.request), as_of=moment)
        record = record_of(material_load(view, request_resolve(view, request)))
        known = Surroundings(targets_load(view, [expectation]), _subjects(view, [expectation], record))
        return outcome_of(expectation, record, known)
    except FAILURES as error:
        return error_outcome(_said(error))


def _materials(
    view: PersonaMemory, expectations: Sequence[Expectation], others: Sequence[str] = ()
) -> Iterator[tuple[list[Expectation], ContextMaterial | Outcome]]:
    """What each prompt is made from, once for all expectations of the same request. The questions that come next are
    embedded meanwhile, one by one, since a batch would give other vectors than the prompt of an agent has."""
    groups: dict[str, list[Expectation]] = {}
    for one in expectations:
        groups.setdefault(json.dumps(one.request, sort_keys=True), []).append(one)
    for group, resolved in _resolved_ahead(view, list(groups.values())):
        if isinstance(resolved, Outcome):
            yield group, resolved
            continue
        try:
            yield group, material_load(view, resolved, others=others)
        except FAILURES as error:
            yield group, _error(error, group[0])


def _resolved_ahead(
    view: PersonaMemory, groups: Sequence[list[Expectation]]
) -> Iterator[tuple[list[Expectation], ResolvedRequest | Outcome]]:
    """Each request as the engine reads it, which begins to embed it, a few before it is its turn."""
    rest = iter(groups)
    coming = deque((group, _resolved(view, group[0])) for group in islice(rest, LOOKED_AHEAD))
    while coming:
        yield coming.popleft()
        coming.extend((group, _resolved(view, group[0])) for group in islice(rest, 1))


def _resolved(view: PersonaMemory, expectation: Expectation) -> ResolvedRequest | Outcome:
    try:
        return request_resolve(view, ContextRequest.of_json(expectation.request))
    except FAILURES as error:
        return _error(error, expectation)


def _error(error: Exception, expectation: Expectation) -> Outcome:
    if not isinstance(error, DomainError | EmbeddingFailed):
        logger.exception("expectation_not_checked", expectation=str(expectation.pk))
    return error_outcome(_said(error))


def _record_after(
    view: PersonaMemory, material: ContextMaterial, overrides: Overrides, others: Sequence[str]
) -> ContextRecord | Outcome:
    try:
        if force_include := overrides.newly_searched:
            material = material_load(view, material.resolved, force_include=force_include, others=others)
        return record_of(material, overrides)
    except FAILURES as error:
        return error_outcome(_said(error))


def _subjects(view: PersonaMemory, group: Sequence[Expectation], record: ContextRecord) -> Mapping[str, str]:
    """Subjects of the facts in a prompt, where one of the expectations asks for them."""
    if not any(one.requirement == Expectation.Requirement.ONLY for one in group):
        return {}
    return subjects_load(view, [key for key in facts_in(record) if key != PROPOSED])


def _proposed_subject(overrides: Overrides) -> Mapping[str, str]:
    """The subject of the text that would stand in a fact's place."""
    placed = [key for key, text in overrides.facts.items() if text is not None]
    return {PROPOSED: overrides.subjects.get(placed[0], "")} if placed else {}


def _said(error: Exception) -> str:
    if isinstance(error, DomainError):
        return error.detail
    if isinstance(error, EmbeddingFailed):
        return "The question could not be embedded."
    # Its own words may quote a memory.
    return f"Unexpected {type(error).__name__}; the log tells more."
