"""Create procedures, record their use, and rate them by success."""

from typing import Any

from django.db.models import F

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Procedure, carried_keys
from memory.persona import change_check
from memory.policy import MAX_REMARK_CHARACTERS
from memory.services.memory_write import memory_add, memory_new, memory_update
from nousweb.lib import Conflict, clock, text_check


@agent_transaction()
def procedure_create(*, agent: Agent, by: Principal, name: str, **fields: Any) -> Procedure:
    """Write down a way of doing something, for the persona that `by` acts as.

    `fields` are domain, description, steps, tags, importance and its keys. Raises Invalid, naming the field, or
    NotAllowed.
    """
    procedure = memory_new(Procedure, agent, by, name=name, **fields)
    told = {field: getattr(procedure, field) for field in ("name", "domain", "steps")}
    return memory_add(procedure, by, "procedure.create", told | carried_keys(procedure))


@agent_transaction(of="procedure")
def procedure_update(*, procedure: Procedure, by: Principal, **fields: Any) -> Procedure:
    """Change these fields of a procedure; None leaves one alone. Its counts stay.

    Raises Invalid, NotAllowed, or Conflict for a procedure of people's, of which the lifecycle changes tags only.
    """
    only = "name domain description steps tags importance active"
    is_flag = by.kind == "system" and fields.keys() == {"tags"}
    return memory_update(procedure, by, fields, only=only, endorsed_too=is_flag)


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
