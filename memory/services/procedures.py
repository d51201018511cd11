"""Create procedures, record their use, and rate them by success."""

from collections.abc import Sequence

from django.db.models import F

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Procedure, Scope, carried_keys
from memory.persona import change_check
from memory.policy import MAX_CONTENT_CHARACTERS, MAX_NAME_CHARACTERS, MAX_REMARK_CHARACTERS, MAX_STEPS
from memory.services.memory_write import keys_move, memory_add, memory_change, memory_lock, new_memory_fields
from nousweb.lib import clock
from nousweb.lib.errors import Conflict
from nousweb.lib.validation import tags_check, text_check, texts_check, unit_check, word_check


@agent_transaction()
def procedure_create(
    *,
    agent: Agent,
    name: str,
    by: Principal,
    domain: str = "",
    description: str = "",
    steps: Sequence[str] = (),
    tags: Sequence[str] = (),
    scope: str = Scope.GLOBAL,
    project: str = "",
    task: str = "",
    importance: float = 0.5,
) -> Procedure:
    """Write down a way of doing something, for the persona that `by` acts as. Raises Invalid or NotAllowed."""
    keys = {"scope": scope, "project": project, "task": task}
    procedure = Procedure(
        **new_memory_fields(agent, by, "memory.add_procedure", tags=tags, importance=importance, **keys),
        name=text_check("name", name, MAX_NAME_CHARACTERS, required=True),
        domain=word_check("domain", domain) if domain else "",
        description=text_check("description", description, MAX_CONTENT_CHARACTERS),
        steps=_steps_check(steps),
    )
    after = {"name": procedure.name, "domain": procedure.domain, "steps": procedure.steps, **carried_keys(procedure)}
    return memory_add(procedure, by, "procedure.create", after)


@agent_transaction(of="procedure")
def procedure_update(
    *,
    procedure: Procedure,
    by: Principal,
    name: str | None = None,
    domain: str | None = None,
    description: str | None = None,
    steps: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    scope: str | None = None,
    project: str | None = None,
    task: str | None = None,
    importance: float | None = None,
    active: bool | None = None,
) -> Procedure:
    """Change a procedure; None leaves a field alone. Its counts stay.

    Raises Invalid, NotAllowed, or Conflict for a procedure of people's, of which the lifecycle changes tags only.
    """
    more = (name, domain, description, steps, scope, project, task, importance, active)
    flags = by.kind == "system" and all(value is None for value in more)
    procedure = memory_lock(procedure, by, "memory.change_procedure", endorsed_too=flags)
    given = {
        "name": None if name is None else text_check("name", name, MAX_NAME_CHARACTERS, required=True),
        "domain": word_check("domain", domain) if domain else domain,
        "description": None if description is None else text_check("description", description, MAX_CONTENT_CHARACTERS),
        "steps": None if steps is None else _steps_check(steps),
        "tags": None if tags is None else tags_check(tags),
        "importance": None if importance is None else unit_check("importance", importance),
        "active": active,
        **keys_move(procedure, by, scope, project, task),
    }
    memory_change(procedure, by, "procedure.update", given)
    return procedure


@agent_transaction(of="procedure")
def procedure_activate(*, procedure: Procedure, by: Principal) -> Procedure:
    """Count one use. Raises Conflict for a procedure that is out of use."""
    return _count(procedure, by, "activation_count", last_activated_at=clock.now())


@agent_transaction(of="procedure")
def procedure_report(*, procedure: Procedure, success: bool, by: Principal, note: str = "") -> Procedure:
    """Count how one use ended. Raises Conflict for a procedure that is out of use."""
    note = text_check("note", note, MAX_REMARK_CHARACTERS)
    return _count(procedure, by, "success_count" if success else "failure_count", message=note)


def _count(procedure: Procedure, by: Principal, counter: str, message: str = "", **fields: object) -> Procedure:
    """Increment a counter in the database, so that concurrent counts are not lost, and set further `fields`."""
    change_check(procedure, by, "memory.change_procedure")
    found = Procedure.objects.active().filter(agent=procedure.agent_id, pk=procedure.pk)
    if not found.update(**{counter: F(counter) + 1}, **fields):
        raise Conflict("This procedure is not in use.")
    # The update locks the row, so it cannot be erased before the end of this transaction.
    procedure = Procedure.objects.select_related("agent").get(agent=procedure.agent_id, pk=procedure.pk)
    audit_record(
        by=by,
        action="procedure.activate" if counter == "activation_count" else "procedure.report",
        target=procedure,
        agent=procedure.agent,
        after={counter: getattr(procedure, counter)},
        message=message,
    )
    return procedure


def _steps_check(steps: Sequence[str]) -> list[str]:
    return texts_check("steps", steps, count=MAX_STEPS, limit=MAX_REMARK_CHARACTERS)
