"""The history of check results: a row for each period with the same result, and the change that led to it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from context.expectations.cause_bisection import CauseFinder, Mark, mark_now
from context.expectations.check_runner import Check, expectations_check
from context.expectations.policy import CAUSE_SECONDS
from context.models import Expectation, ExpectationResult
from identity.models import Agent
from identity.services.agent_lock import agent_transaction
from identity.services.change_feed import feed_change_draft, feed_changes_record
from memory.persona import PersonaMemory

State = ExpectationResult.State


@dataclass(frozen=True, slots=True)
class CheckRun:
    """The result of one round of checks before it is stored: `causes` by expectation."""

    checks: Sequence[Check]
    causes: Mapping[UUID, Mapping[str, Any]]
    mark: Mark
    seconds: float


def expectations_run(view: PersonaMemory, expectations: Sequence[Expectation]) -> CheckRun:
    """Check the expectations of one persona, and find the causes of those that changed. Writes nothing. Do not call it
    in a transaction that others wait for."""
    began = time.monotonic()
    mark = mark_now(view)
    checks = list(expectations_check(view, expectations))
    finder = CauseFinder(view, CAUSE_SECONDS)
    rows = ExpectationResult.objects.filter(agent=view.agent, expectation__in=expectations, is_current=True)
    held = {row.expectation_id: row for row in rows}
    causes = {}
    for check in checks:
        result = held.get(check.expectation.pk)
        if result is not None and not _is_same(result, check):
            causes[check.expectation.pk] = _cause(finder, check)
    return CheckRun(checks, causes, mark, time.monotonic() - began)


def _is_same(result: ExpectationResult, check: Check) -> bool:
    """Whether nothing is to be found out about what led to the state."""
    return result.state == check.outcome.state and not result.cause.get("pending")


def _cause(finder: CauseFinder, check: Check) -> Mapping[str, Any]:
    """The cause of a change from the other state to the present one; {} if the expectation never had the other state.

    Checks in between that could not run do not count.
    """
    one, state = check.expectation, check.outcome.state
    if state == State.ERROR:
        return {}
    results = one.results.filter(revision=one.revision).exclude(state=State.ERROR).order_by("-since", "-id")
    last = results.first()
    if last is not None and last.state == state and not last.cause.get("pending"):
        return last.cause
    before = results.exclude(state=state).first()
    if before is None:
        return {}
    return finder.find(one, check.outcome, Mark(before.positions, before.checked_at)).as_json()


@agent_transaction()
def results_record(*, agent: Agent, run: CheckRun) -> None:
    """Store the results of a round. Expectations that were edited or deleted meanwhile are skipped, and results of a
    later round stay."""
    ids = [check.expectation.pk for check in run.checks]
    rows = Expectation.objects.select_for_update().filter(agent=agent, pk__in=ids).order_by("pk")
    revisions = dict(rows.values_list("pk", "revision"))
    current = {
        row.expectation_id: row
        for row in ExpectationResult.objects.filter(agent=agent, expectation__in=ids, is_current=True)
    }
    fresh, same, drafts = [], [], []
    ended = []
    for check in run.checks:
        one, outcome = check.expectation, check.outcome
        if revisions.get(one.pk) != one.revision:
            continue
        held = current.get(one.pk)
        if held is not None and held.revision == one.revision and held.checked_at > run.mark.at:
            continue
        cause = run.causes.get(one.pk)
        if held is not None and held.revision == one.revision and held.state == outcome.state:
            held.code, held.detail, held.checked_at = outcome.code, outcome.detail, run.mark.at
            held.positions, held.checks = dict(run.mark.positions), held.checks + 1
            if cause is not None:
                held.cause = dict(cause)
            same.append(held)
            continue
        if held is not None:
            ended.append(held.pk)
        fresh.append(_result_of(check, cause or {}, run.mark))
        if held is not None or outcome.state != State.PASSED:
            kind = "expectation.mended" if outcome.passed else "expectation.broken"
            drafts.append(feed_change_draft(kind, agent, one.persona, "expectation", one.pk, {"state": outcome.state}))
    ExpectationResult.objects.filter(agent=agent, pk__in=ended).update(is_current=False)
    ExpectationResult.objects.bulk_create(fresh)
    ExpectationResult.objects.bulk_update(
        same, ["code", "detail", "checked_at", "positions", "checks", "cause"], batch_size=500
    )
    feed_changes_record(drafts)


def _result_of(check: Check, cause: Mapping[str, Any], mark: Mark) -> ExpectationResult:
    one, outcome = check.expectation, check.outcome
    return ExpectationResult(
        agent_id=one.agent_id,
        persona=one.persona,
        expectation=one,
        revision=one.revision,
        state=outcome.state,
        code=outcome.code,
        detail=outcome.detail,
        cause=dict(cause),
        positions=dict(mark.positions),
        since=mark.at,
        checked_at=mark.at,
    )
