"""Checking expectations: each question is asked of the real engine, and leaves no trace."""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import islice

import structlog

from context.engine.analysis.request import ContextRequest
from context.engine.analysis.resolved_request import ResolvedRequest, request_resolve
from context.engine.overrides import PROPOSED, Overrides
from context.engine.pipeline import ContextMaterial, material_after, material_load, record_of
from context.engine.record import ContextRecord
from context.expectations.outcome import Outcome, Surroundings, error_outcome, facts_in, outcome_of
from context.expectations.policy import LOOKED_AHEAD
from context.expectations.target_memories import (
    NOTHING_UNINDEXED,
    FactSubject,
    Key,
    TargetMemory,
    Unindexed,
    subjects_load,
    targets_load,
    unindexed_load,
)
from context.models import Expectation
from memory.embedding import EmbeddingFailed
from memory.persona import PersonaMemory
from memory.services.subjects.merge import subjects_merged_on_trial
from nousweb.lib.errors import DomainError

logger = structlog.get_logger(__name__)


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
    share it. What cannot be asked is an error, whatever stops it: it must not stop the others, whose last results
    would stand."""
    surroundings = _SurroundingsReader(view, expectations)
    for group, material in _materials(view, expectations):
        record = _record(group[0], material)
        yield from (_check(one, record, surroundings) for one in group)


def expectations_impact(
    view: PersonaMemory, expectations: Sequence[Expectation], overrides: Overrides
) -> Iterator[ImpactCheck]:
    """The same with and without a change under consideration, one loading for both."""
    overrides = overrides.seen_by(view.personas)
    surroundings = _SurroundingsReader(view, expectations)
    changed = _SurroundingsReader(view, expectations, overrides)
    others = list(overrides.metadata)
    for group, material in _materials(view, expectations, others):
        before = _record(group[0], material)
        first = [_check(one, before, surroundings) for one in group]
        with subjects_merged_on_trial(view.agent, overrides.merged):
            after = material if isinstance(material, Outcome) else _record_after(view, material, overrides, others)
            then = [_check(one, after, changed) for one in group]
        yield from map(ImpactCheck, group, first, then)


def check_as_of(view: PersonaMemory, expectation: Expectation, moment: datetime) -> Outcome:
    """What came of an expectation at a moment of the past, as far as the past can be rebuilt."""
    try:
        request = replace(ContextRequest.of_json(expectation.request), as_of=moment)
        record = record_of(material_load(view, request_resolve(view, request)))
        known = Surroundings(targets_load(view, [expectation]), _subjects(view, expectation, record))
        return outcome_of(expectation, record, known)
    except Exception as error:
        return _error(error, expectation)


class _SurroundingsReader:
    """What verdicts need besides the prompt. What is the same for all prompts is read once, at the first of them."""

    def __init__(
        self, view: PersonaMemory, expectations: Sequence[Expectation], overrides: Overrides | None = None
    ) -> None:
        self._view = view
        self._expectations = expectations
        self._overrides = overrides

    @cached_property
    def _targets(self) -> Mapping[Key, TargetMemory] | None:
        try:
            return targets_load(self._view, self._expectations)
        except Exception:
            # One of them cannot be read, which costs only that one.
            return None

    @cached_property
    def _unindexed(self) -> Unindexed:
        return unindexed_load(self._view, self._expectations)

    def around(self, expectation: Expectation, record: ContextRecord) -> Surroundings:
        """What is known of the memories that this verdict is about."""
        targets = self._targets
        if targets is None:
            targets = targets_load(self._view, [expectation])
        subjects = _subjects(self._view, expectation, record, self._unindexed)
        if self._overrides is None:
            return Surroundings(targets, subjects, unindexed=self._unindexed)
        if subjects:
            subjects = {**subjects, **_proposed_subject(self._view, self._overrides)}
        return Surroundings(targets, subjects, frozenset(self._overrides.facts), self._unindexed)


def _record(expectation: Expectation, material: ContextMaterial | Outcome) -> ContextRecord | Outcome:
    if isinstance(material, Outcome):
        return material
    try:
        return record_of(material)
    except Exception as error:
        return _error(error, expectation)


def _check(expectation: Expectation, record: ContextRecord | Outcome, surroundings: _SurroundingsReader) -> Check:
    if isinstance(record, Outcome):
        return Check(expectation, record)
    try:
        outcome = outcome_of(expectation, record, surroundings.around(expectation, record))
    except Exception as error:
        outcome = _error(error, expectation)
    return Check(expectation, outcome, record)


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
        except Exception as error:
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
    except Exception as error:
        return _error(error, expectation)


def _error(error: Exception, expectation: Expectation) -> Outcome:
    if not isinstance(error, DomainError | EmbeddingFailed):
        logger.exception("expectation_not_checked", expectation=str(expectation.pk))
    return error_outcome(_said(error))


def _record_after(
    view: PersonaMemory, material: ContextMaterial, overrides: Overrides, others: Sequence[str]
) -> ContextRecord | Outcome:
    try:
        return record_of(material_after(view, material, overrides, others), overrides)
    except Exception as error:
        return error_outcome(_said(error))


def _subjects(
    view: PersonaMemory, expectation: Expectation, record: ContextRecord, unindexed: Unindexed = NOTHING_UNINDEXED
) -> Mapping[str, FactSubject]:
    """What the facts in a prompt are about, and those that the search could not weigh, where the expectation asks for
    it."""
    if expectation.requirement != Expectation.Requirement.ONLY:
        return {}
    waiting = [item_id for item_type, item_id in unindexed.texts if item_type == "fact"]
    return subjects_load(view, {key for key in (*facts_in(record), *waiting) if key != PROPOSED})


def _proposed_subject(view: PersonaMemory, overrides: Overrides) -> Mapping[str, FactSubject]:
    """The subject of the text that would stand in a fact's place."""
    placed = [key for key, text in overrides.facts.items() if text is not None][:1]
    found = list(subjects_load(view, placed).values())
    return {PROPOSED: found[0]} if found else {}


def _said(error: Exception) -> str:
    if isinstance(error, DomainError):
        return error.detail
    if isinstance(error, EmbeddingFailed):
        return "The question could not be embedded."
    # Its own words may quote a memory.
    return f"Unexpected {type(error).__name__}; see the log for details."
