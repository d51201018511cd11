"""Selectors of expectations: which ones a principal may see, and their results."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet

from context.expectations.policy import RESULT_HOLDS, VIEW
from context.models import Expectation, ExpectationResult
from context.models.expectations import ExpectationQuerySet
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.persona import VIEWS
from nousweb.lib import clock
from nousweb.lib.errors import NotFound
from nousweb.lib.permission_holder import PermissionHolder, for_visible_agents

State = ExpectationResult.State


def personas_of(by: Principal) -> tuple[str, ...]:
    """The personas whose expectations `by` may see. People need a permission for those of the subconscious."""
    if by.token is not None:
        return VIEWS[by.persona].personas
    return tuple(Persona.values) if by.may(VIEW_SUBCONSCIOUS) else (Persona.ACTOR,)


def expectations_of(agent: Agent, by: Principal) -> ExpectationQuerySet:
    """The expectations of an agent that `by` may see, each with its current result. Raises NotAllowed, NotFound."""
    by.require(VIEW, agent)
    current = ExpectationResult.objects.filter(agent=agent, is_current=True)
    rows = Expectation.objects.filter(agent=agent, persona__in=personas_of(by))
    return rows.prefetch_related(Prefetch("results", current, to_attr="current_results"))


def expectation_get(agent: Agent, by: Principal, key: UUID) -> Expectation:
    """One expectation. Raises NotAllowed, and NotFound also for one that `by` may not see."""
    found = expectations_of(agent, by).select_related("agent").filter(pk=key).first()
    if found is None:
        raise NotFound("There is no such expectation.")
    return found


def result_of(expectation: Expectation) -> ExpectationResult | None:
    """The current result of an expectation from `expectations_of`; None before its first check."""
    held: Sequence[ExpectationResult] = getattr(expectation, "current_results", ())
    return held[0] if held else None


def state_of(expectation: Expectation) -> str:
    """Its state by the current result; "" before its first check, and if a pass is older than RESULT_HOLDS."""
    result = result_of(expectation)
    if result is None or (result.passed and result.checked_at < clock.now() - RESULT_HOLDS):
        return ""
    return result.state


def in_state(rows: ExpectationQuerySet, state: str) -> ExpectationQuerySet:
    """Limit `rows` to those whose `state_of` is `state`; "unchecked" stands for ""."""
    held = ExpectationResult.objects.filter(agent=OuterRef("agent"), expectation=OuterRef("pk"), is_current=True)
    outdated = Q(state=State.PASSED, checked_at__lt=clock.now() - RESULT_HOLDS)
    if state == "unchecked":
        return rows.exclude(Exists(held.exclude(outdated)))
    return rows.filter(Exists(held.filter(state=state).exclude(outdated)))


def broken_results(by: PermissionHolder) -> QuerySet[ExpectationResult]:
    """The current results of active expectations that failed or could not run, of all agents, as `by` may see them."""
    rows = ExpectationResult.objects.filter(is_current=True, expectation__active=True).exclude(state=State.PASSED)
    rows = for_visible_agents(rows, by)
    return rows if by.may(VIEW_SUBCONSCIOUS) else rows.filter(persona=Persona.ACTOR)


@dataclass(frozen=True, slots=True)
class ExpectationTotals:
    """Numbers of active expectations by state; `unchecked` ones have no current result."""

    passed: int = 0
    failed: int = 0
    errors: int = 0
    unchecked: int = 0

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.errors + self.unchecked

    @property
    def state(self) -> str:
        """FAILED if any failed; PASSED if there are expectations and all passed; else ERROR."""
        if self.failed:
            return State.FAILED
        return State.PASSED if self.total and self.passed == self.total else State.ERROR


def expectation_totals(expectations: Sequence[Expectation]) -> ExpectationTotals:
    """Count expectations from `expectations_of` by state; retired ones do not count."""
    states = [state_of(one) for one in expectations if one.active]
    return ExpectationTotals(
        states.count(State.PASSED), states.count(State.FAILED), states.count(State.ERROR), states.count("")
    )
