"""Read expectations and their results; create, change and retire them (people only), and request their checks."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet

from context.engine.analysis.request import ContextRequest
from context.expectations import policy
from context.expectations.cause_bisection import expectations_run, results_record
from context.expectations.evaluation import Requirement, State, Target, comparable_text
from context.expectations.policy import ADD, CHANGE, RESULT_HOLDS, RUN, VIEW
from context.models import ContextRun, Expectation, ExpectationQuerySet, ExpectationResult
from context.services.agent_settings import item_check, profile_get
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.versions import agent_lock
from memory.models import ItemType
from memory.persona import VIEWS
from memory.types import MEMORY_TYPES
from nousweb.lib import Conflict, Invalid, NotFound, choice_check, clock, existing, text_check
from nousweb.lib.permission_holder import PermissionHolder, for_visible_agents


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
    return existing(
        expectations_of(agent, by).select_related("agent").filter(pk=key).first(), "There is no such expectation."
    )


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
    def words(self) -> str:
        """How many fail, else how many hold: "1 of 3 fails"."""
        number, told = (self.failed, "fail") if self.failed else (self.passed, "hold")
        return f"{number} of {self.total} {told}{'s' * (number == 1)}"

    @property
    def state(self) -> str:
        """FAILED if any failed; PASSED if there are expectations and all passed; else ERROR."""
        if self.failed:
            return State.FAILED
        return State.PASSED if self.total and self.passed == self.total else State.ERROR


def expectation_totals(expectations: Sequence[Expectation]) -> ExpectationTotals:
    """Count expectations from `expectations_of` by state; retired ones do not count."""
    states = [state_of(expectation) for expectation in expectations if expectation.active]
    return ExpectationTotals(
        states.count(State.PASSED), states.count(State.FAILED), states.count(State.ERROR), states.count("")
    )


@agent_transaction()
def expectation_create(
    *,
    agent: Agent,
    by: Principal,
    request: ContextRequest,
    requirement: str,
    target: str,
    item_type: str = "",
    item_id: str = "",
    text: str = "",
    section: str = "",
    reason: str = "",
    persona: str | None = None,
) -> Expectation:
    """Write an expectation of the prompt for a request. It has no result until it is checked.

    Raises Invalid, NotFound for a memory that `by` may not read, NotAllowed, and Conflict beyond MAX_ACTIVE.
    """
    by.require(ADD, agent)
    persona = _persona(by, persona)
    agent = agent_lock(agent)
    if Expectation.objects.filter(agent=agent).active().count() >= policy.MAX_ACTIVE:
        raise Conflict(f"At most {policy.MAX_ACTIVE} expectations of an agent are active; retire one first.")
    author = {"author_kind": by.kind, "author_id": by.id, "author_name": by.name}
    row = Expectation(agent=agent, persona=persona, **author)
    _fill(
        row,
        request=request,
        requirement=requirement,
        target=target,
        item_type=item_type,
        item_id=item_id,
        text=text,
        section=section,
        reason=reason,
    )
    row.save(force_insert=True)
    _record(row, by, "expectation.create", after=_state(row))
    return row


@agent_transaction(of="expectation")
def expectation_update(
    *, expectation: Expectation, by: Principal, base_revision: int | None = None, **changes: Any
) -> Expectation:
    """Change the given fields; the others stay. Its results are of the revision before, so it becomes unchecked.

    Raises Invalid, NotFound, NotAllowed, and Conflict when `base_revision` is not the current one.
    """
    row = _locked(expectation, by)
    if base_revision is not None and base_revision != row.revision:
        raise Conflict(
            f"This edit is based on revision {base_revision}, but {row.revision} is current.", current=row.revision
        )
    before = _state(row)
    given = {name: before[name] for name in _REQUIREMENT} | {"request": ContextRequest.of_json(row.request)}
    _fill(row, **{**given, **changes})
    after = _state(row)
    if after == before:
        return row
    row.updated_at = clock.now()
    if any(before[name] != after[name] for name in after if name != "reason"):
        row.revision += 1
        row.results.filter(is_current=True).update(is_current=False)
    row.save()
    _record(row, by, "expectation.update", before=before, after=after)
    return row


@agent_transaction(of="expectation")
def expectation_retire(*, expectation: Expectation, by: Principal, reason: str = "") -> Expectation:
    """Stop checking an expectation; it and its results stay, and it can be restored. Retiring twice changes nothing."""
    return _activate(expectation, by, active=False, action="expectation.retire", reason=reason)


@agent_transaction(of="expectation")
def expectation_restore(*, expectation: Expectation, by: Principal, reason: str = "") -> Expectation:
    """Check a retired expectation again. Raises Conflict beyond MAX_ACTIVE."""
    agent_lock(expectation.agent)
    others = Expectation.objects.filter(agent=expectation.agent_id).active().exclude(pk=expectation.pk)
    if others.count() >= policy.MAX_ACTIVE:
        raise Conflict(f"At most {policy.MAX_ACTIVE} expectations of an agent are active; retire one first.")
    return _activate(expectation, by, active=True, action="expectation.restore", reason=reason)


def expectations_verify(
    *, agent: Agent, by: Principal, ids: Sequence[UUID] | None = None, persona: str | None = None
) -> list[Expectation]:
    """Check the active expectations that `by` may see, or those of `ids`, and store the results; returns both.

    A token checks only those of its own persona, so that the subconscious leaves no trace with the actor. Do not call
    it in a transaction. Raises NotAllowed, and NotFound for an unknown id.
    """
    by.require(RUN, agent)
    own = (by.persona,) if by.token is not None else personas_of(by)
    wanted = expectations_of(agent, by).active().filter(persona__in=own)
    if ids is not None:
        wanted = wanted.filter(pk__in=ids)
    if persona is not None:
        wanted = wanted.filter(persona=choice_check("persona", persona, Persona.values))
    found = list(wanted)
    if ids is not None and len(found) != len(set(ids)):
        raise NotFound("There is no such expectation, or it is retired.")
    for view in (VIEWS[one](agent) for one in own):
        if rows := [one for one in found if one.persona == view.persona]:
            results_record(agent=agent, run=expectations_run(view, rows))
    return list(wanted.all())


def request_of(question: str, *, session_id: str = "", **more: Any) -> ContextRequest:
    """The request of an expectation; `more` are fields of ContextRequest. Raises Invalid, naming the field."""
    return ContextRequest(session_id=session_id or policy.SESSION, input=question, **more)


def request_of_run(run: ContextRun, persona: str) -> ContextRequest:
    """The request of a logged run, for an expectation of `persona`. Raises Invalid for a run of an older format.

    A run of the other persona is refused, since its input may contain text that the readers of this persona must not
    see.
    """
    if run.persona != persona:
        raise Invalid(f"This run belongs to the {run.persona}, so its expectation must too.", field="persona")
    try:
        return ContextRequest.of_json(run.request)
    except KeyError as error:
        raise Invalid("The request of this run has an older format.", field="run") from error


_REQUIREMENT = ("requirement", "target", "item_type", "item_id", "text", "section", "reason")
_NAMES = {Target.MEMORY: ("item_type", "item_id"), Target.TEXT: ("text",), Target.SECTION: ("section",)}


def _fill(
    row: Expectation,
    *,
    request: ContextRequest,
    requirement: str,
    target: str,
    item_type: str,
    item_id: str,
    text: str,
    section: str,
    reason: str,
) -> None:
    choice_check("requirement", requirement, Requirement.values)
    choice_check("target", target, Target.values)
    if requirement == Requirement.ONLY and (target, item_type) != (Target.MEMORY, ItemType.FACT):
        raise Invalid("Only a fact can be the only fact of its subject.", field="requirement")
    request_check(request)
    given = {"item_type": item_type, "item_id": item_id, "text": text, "section": section}
    if extra := [name for name, value in given.items() if value and name not in _NAMES[Target(target)]]:
        raise Invalid(f"A requirement about a {target} must not name {extra[0]}.", field=extra[0])
    if target == Target.MEMORY:
        # One that is named already may have been erased since.
        if not item_id or (item_type, item_id) != (row.item_type, row.item_id):
            _memory_check(row, requirement, item_type, item_id)
    elif target == Target.TEXT:
        text = given["text"] = text_check("text", text, policy.MAX_TEXT_CHARACTERS, required=True)
        if len(comparable_text(text)) < policy.MIN_TEXT_CHARACTERS:
            raise Invalid(f"text has at least {policy.MIN_TEXT_CHARACTERS} visible characters.", field="text")
    else:
        choice_check("section", section, policy.SECTIONS)
    row.request = request.as_json()
    row.requirement, row.target = requirement, target
    for name, value in given.items():
        setattr(row, name, value)
    row.reason = text_check("reason", reason, policy.MAX_REASON_CHARACTERS)


def request_check(request: ContextRequest) -> None:
    """Raise Invalid for a request that no prompt can be made for, or that is too long to be kept."""
    if not request.input.strip():
        raise Invalid("input must not be empty.", field="input")
    if len(json.dumps(request.as_json())) > policy.MAX_REQUEST_CHARACTERS:
        raise Invalid(
            f"The question with its conversation holds at most {policy.MAX_REQUEST_CHARACTERS:,} characters.",
            field="input",
        )
    if request.profile is not None:
        try:
            profile_get(request.profile)
        except NotFound as error:
            raise Invalid(error.detail, field="profile") from error


def _memory_check(row: Expectation, requirement: str, item_type: str, item_id: str) -> None:
    """The memory is there, retired or not, and its persona's prompts could hold it."""
    item_check(item_type, item_id)
    view = VIEWS[row.persona](row.agent)
    rows: QuerySet[Any] = view.rows(MEMORY_TYPES[item_type].model)
    memory = existing(rows.filter(pk=item_id).first(), "There is no such memory.")
    if requirement == Requirement.ONLY and not memory.subject.strip():
        raise Invalid("This fact has no subject, so it cannot be the only fact of its subject.", field="item_id")


def _persona(by: Principal, persona: str | None) -> str:
    wanted = choice_check("persona", persona or Persona.ACTOR, Persona.values)
    if wanted not in personas_of(by):
        by.require("memory.view_subconscious")
    return wanted


def _locked(expectation: Expectation, by: Principal) -> Expectation:
    """Lock the row for a person who may change it. Raises NotAllowed, and NotFound for a row that `by` may not see."""
    by.require(CHANGE, expectation.agent)
    rows = Expectation.objects.select_for_update(of=("self",)).select_related("agent")
    return existing(
        rows.filter(agent=expectation.agent_id, pk=expectation.pk, persona__in=personas_of(by)).first(),
        "There is no such expectation.",
    )


def _activate(expectation: Expectation, by: Principal, *, active: bool, action: str, reason: str) -> Expectation:
    row = _locked(expectation, by)
    if row.active == active:
        return row
    reason = text_check("reason", reason, policy.MAX_REASON_CHARACTERS)
    row.put(active=active, updated_at=clock.now())
    ExpectationResult.objects.filter(expectation=row, is_current=True).update(is_current=False)
    _record(row, by, action, before={"active": not active}, after={"active": active}, message=reason)
    return row


def _state(row: Expectation) -> dict[str, Any]:
    return {"request": row.request, **{name: getattr(row, name) for name in _REQUIREMENT}}


def _record(row: Expectation, by: Principal, action: str, **states: Any) -> None:
    for state in states.values():
        if isinstance(state, dict) and "request" in state:
            # The trail says that there was a conversation; the expectation itself holds it.
            state["request"] = {**state["request"], "conversation": len(state["request"].get("conversation", ()))}
    audit_record(by=by, action=action, target=row, agent=row.agent, **states)
