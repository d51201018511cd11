"""Run the checks of expectations: each question is answered by the real engine, without being logged."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import islice
from typing import TypeVar

import structlog

from context.engine.analysis.request import ContextRequest, ResolvedRequest, request_resolve
from context.engine.context_record import ContextRecord
from context.engine.overrides import PROPOSED, Overrides
from context.engine.pipeline import ContextInputs, build_record, context_inputs_load, context_inputs_with
from context.expectations.evaluation import (
    NOTHING_UNINDEXED,
    EvaluationContext,
    FactSubject,
    Key,
    Outcome,
    State,
    TargetMemory,
    Unindexed,
    error_outcome,
    facts_in,
    outcome_of,
    subjects_load,
    targets_load,
    unindexed_load,
)
from context.expectations.policy import LOOKED_AHEAD
from context.models import Expectation
from memory.embedding import EmbeddingFailed
from memory.persona import PersonaMemory
from memory.services.subjects.changes import subjects_merged_in_dry_run
from nousweb.lib.errors import DomainError

logger = structlog.get_logger(__name__)
T = TypeVar("T")
R = TypeVar("R")
STATE_WORDS: Mapping[str, str] = {State.PASSED: "holds", State.FAILED: "fails", State.ERROR: "could not run"}


@dataclass(frozen=True, slots=True)
class Check:
    """An expectation with its outcome; `record` is the prompt, None if there is none."""

    expectation: Expectation
    outcome: Outcome
    record: ContextRecord | None = None


@dataclass(frozen=True, slots=True)
class ImpactCheck:
    """An expectation with its check of today, and its check after a change."""

    expectation: Expectation
    before: Check
    after: Check

    @property
    def states(self) -> tuple[str, str]:
        return self.before.outcome.state, self.after.outcome.state

    @property
    def words(self) -> str:
        """What becomes of it: "holds", or "holds → fails"."""
        return " → ".join(dict.fromkeys(STATE_WORDS[state] for state in self.states))


def expectations_check(view: PersonaMemory, expectations: Sequence[Expectation]) -> Iterator[Check]:
    """Assemble the prompt of each expectation now, through one persona's view, and evaluate it. Expectations with the
    same request share the prompt. Any failure becomes an error outcome, so that it does not stop the other checks and
    leave their old results in place."""
    contexts = _EvaluationContextReader(view, expectations)
    for group, inputs in _inputs_by_request(view, expectations):
        record = _then(group[0], inputs, build_record)
        yield from (_check(expectation, record, contexts) for expectation in group)


def expectations_impact(
    view: PersonaMemory, expectations: Sequence[Expectation], overrides: Overrides, base: Overrides | None = None
) -> Iterator[ImpactCheck]:
    """Check with and without a hypothetical change, or with `base`, another identity. Both share the loaded inputs."""
    overrides = overrides.visible_to(view.personas)
    contexts = _EvaluationContextReader(view, expectations)
    changed = _EvaluationContextReader(view, expectations, overrides)
    others = list(overrides.metadata)
    for group, inputs in _inputs_by_request(view, expectations, others):
        before = _then(group[0], inputs, lambda now: build_record(now, base))
        first = [_check(expectation, before, contexts) for expectation in group]
        with subjects_merged_in_dry_run(view.agent, overrides.merged):
            after = _then(
                group[0], inputs, lambda now: build_record(context_inputs_with(view, now, overrides, others), overrides)
            )
            then = [_check(expectation, after, changed) for expectation in group]
        yield from map(ImpactCheck, group, first, then)


def check_as_of(view: PersonaMemory, expectation: Expectation, moment: datetime) -> Outcome:
    """Check an expectation at a moment of the past, as far as the past can be reconstructed."""

    def check(one: Expectation) -> Outcome:
        request = replace(ContextRequest.of_json(one.request), as_of=moment)
        record = build_record(context_inputs_load(view, request_resolve(view, request)))
        return outcome_of(one, record, EvaluationContext(targets_load(view, [one]), _subjects(view, one, record)))

    return _then(expectation, expectation, check)


class _EvaluationContextReader:
    """Reads evaluation contexts. Inputs that all prompts share are read once, for the first of them."""

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
            # One of them cannot be read. Each is then read by itself, so that only that one fails.
            return None

    @cached_property
    def _unindexed(self) -> Unindexed:
        return unindexed_load(self._view, self._expectations)

    def context_of(self, expectation: Expectation, record: ContextRecord) -> EvaluationContext:
        """The evaluation context of one expectation and its prompt."""
        targets = self._targets
        if targets is None:
            targets = targets_load(self._view, [expectation])
        subjects = _subjects(self._view, expectation, record, self._unindexed)
        if self._overrides is None:
            return EvaluationContext(targets, subjects, unindexed=self._unindexed)
        if subjects:
            subjects = {**subjects, **_proposed_subject(self._view, self._overrides)}
        return EvaluationContext(targets, subjects, frozenset(self._overrides.facts), self._unindexed)


def _then(expectation: Expectation, given: T | Outcome, step: Callable[[T], R]) -> R | Outcome:
    """What a step of a check makes of what the one before gave; its failure is an outcome, and an outcome stays one."""
    if isinstance(given, Outcome):
        return given
    try:
        return step(given)
    except Exception as error:
        if not isinstance(error, DomainError | EmbeddingFailed):
            logger.exception("expectation_not_checked", expectation=str(expectation.pk))
        return error_outcome(_error_message(error))


def _check(expectation: Expectation, record: ContextRecord | Outcome, contexts: _EvaluationContextReader) -> Check:
    outcome = _then(
        expectation, record, lambda found: outcome_of(expectation, found, contexts.context_of(expectation, found))
    )
    return Check(expectation, outcome, None if isinstance(record, Outcome) else record)


def _inputs_by_request(
    view: PersonaMemory, expectations: Sequence[Expectation], others: Sequence[str] = ()
) -> Iterator[tuple[list[Expectation], ContextInputs | Outcome]]:
    """The inputs of each prompt, once for all expectations with the same request. The next questions are embedded
    meanwhile: one by one, since a batch would give vectors that differ from those of an agent's prompt."""
    groups: dict[str, list[Expectation]] = {}
    for expectation in expectations:
        groups.setdefault(json.dumps(expectation.request, sort_keys=True), []).append(expectation)
    for group, resolved in _resolved_requests(view, list(groups.values())):
        yield group, _then(group[0], resolved, partial(context_inputs_load, view, others=others))


def _resolved_requests(
    view: PersonaMemory, groups: Sequence[list[Expectation]]
) -> Iterator[tuple[list[Expectation], ResolvedRequest | Outcome]]:
    """The resolved requests, a few ahead of their turn, since resolving one begins to embed its question."""
    rest = iter(groups)
    coming = deque((group, _resolved(view, group[0])) for group in islice(rest, LOOKED_AHEAD))
    while coming:
        yield coming.popleft()
        coming.extend((group, _resolved(view, group[0])) for group in islice(rest, 1))


def _resolved(view: PersonaMemory, expectation: Expectation) -> ResolvedRequest | Outcome:
    return _then(expectation, expectation, lambda one: request_resolve(view, ContextRequest.of_json(one.request)))


def _subjects(
    view: PersonaMemory, expectation: Expectation, record: ContextRecord, unindexed: Unindexed = NOTHING_UNINDEXED
) -> Mapping[str, FactSubject]:
    """The subjects of the facts in a prompt and of unindexed facts, if the expectation depends on subjects."""
    if expectation.requirement != Expectation.Requirement.ONLY:
        return {}
    waiting = [item_id for item_type, item_id in unindexed.texts if item_type == "fact"]
    return subjects_load(view, {key for key in (*facts_in(record), *waiting) if key != PROPOSED})


def _proposed_subject(view: PersonaMemory, overrides: Overrides) -> Mapping[str, FactSubject]:
    """The subject of the text that would replace a fact."""
    placed = [key for key, text in overrides.facts.items() if text is not None][:1]
    found = list(subjects_load(view, placed).values())
    return {PROPOSED: found[0]} if found else {}


def _error_message(error: Exception) -> str:
    if isinstance(error, DomainError):
        return error.detail
    if isinstance(error, EmbeddingFailed):
        return "The question could not be embedded."
    # Its own message may quote a memory.
    return f"Unexpected {type(error).__name__}; see the log for details."
