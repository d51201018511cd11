"""Expectations that a hypothetical change would break, by their prompts with it and without it. Writes nothing."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from context.engine.overrides import Overrides
from context.expectations.check_runner import ImpactCheck, expectations_impact
from context.expectations.policy import VIEW
from context.expectations.selectors import expectation_get, expectations_of, personas_of
from context.models import Expectation, ExpectationResult
from identity.models import Agent
from identity.principal import Principal
from memory.persona import VIEWS
from nousweb.lib.errors import NotFound

State = ExpectationResult.State


@dataclass(frozen=True, slots=True)
class ExpectationImpact:
    """Of `total` active expectations, `checked` were checked before time ran out.

    `broken` ones pass today and would fail, `mended` ones the reverse; `errors` could not be checked, with the change
    or without it; `failing` ones fail with both.
    """

    total: int
    checked: int = 0
    broken: tuple[ImpactCheck, ...] = ()
    mended: tuple[ImpactCheck, ...] = ()
    errors: tuple[ImpactCheck, ...] = ()
    failing: int = 0

    @property
    def cut_short(self) -> bool:
        return self.checked < self.total


NO_EXPECTATIONS = ExpectationImpact(0)


def expectation_impact(*, agent: Agent, overrides: Overrides, by: Principal, seconds: float) -> ExpectationImpact:
    """Check the active expectations that `by` may see, with `overrides` and without. No check starts after `seconds`.
    Empty for callers who may not see expectations."""
    if not by.may(VIEW):
        return NO_EXPECTATIONS
    rows = list(expectations_of(agent, by).active())
    until = time.monotonic() + seconds
    checks: list[ImpactCheck] = []
    for check in _checks(agent, rows, overrides, by):
        checks.append(check)
        if time.monotonic() >= until:
            break
    errors = tuple(one for one in checks if State.ERROR in (one.before.outcome.state, one.after.outcome.state))
    known = [one for one in checks if one not in errors]
    return ExpectationImpact(
        total=len(rows),
        checked=len(checks),
        broken=tuple(one for one in known if one.before.outcome.passed and not one.after.outcome.passed),
        mended=tuple(one for one in known if one.after.outcome.passed and not one.before.outcome.passed),
        errors=errors,
        failing=sum(not one.before.outcome.passed and not one.after.outcome.passed for one in known),
    )


def impact_of_expectation(*, agent: Agent, key: UUID, overrides: Overrides, by: Principal) -> ImpactCheck:
    """The impact of a change on one expectation. Raises NotAllowed, and NotFound if it cannot be checked."""
    row = expectation_get(agent, by, key)
    check = next(_checks(agent, [row], overrides, by))
    if check.before.record is None or check.after.record is None:
        raise NotFound(f"This expectation could not be checked: {check.after.outcome.detail}")
    return check


def _checks(agent: Agent, rows: Sequence[Expectation], overrides: Overrides, by: Principal) -> Iterator[ImpactCheck]:
    for persona in personas_of(by):
        own = [row for row in rows if row.persona == persona]
        if own:
            yield from expectations_impact(VIEWS[persona](agent), own, overrides)
