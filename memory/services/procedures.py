"""Create procedures, record their use, and rate them by success."""

from collections.abc import Sequence

from django.db.models import F

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Procedure, Scope
from memory.models.project_scope import carried_keys, key_check, keys_changed, tier_of
from memory.persona import change_check
from memory.policy.size_limits import MAX_CONTENT_CHARACTERS, MAX_NAME_CHARACTERS, MAX_REMARK_CHARACTERS, MAX_STEPS
from memory.services.endorsement import human_author_check, memory_endorse
from memory.services.field_changes import fields_change
from memory.services.quarantine.memories import quarantine_if_needed
from memory.services.row_locks import row_lock
from memory.services.search_index.writer import index_put
from memory.services.trust import origin_of
from memory.types import entry_of
from nousweb.lib import clock
from nousweb.lib.errors import Conflict
from nousweb.lib.validation import choice_check, tags_check, text_check, texts_check, unit_check, word_check


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
    by.require("memory.add_procedure", agent)
    project, task = key_check("project", project), key_check("task", task)
    by.require_project(project)
    procedure = Procedure(
        agent=agent,
        persona=by.persona,
        name=text_check("name", name, MAX_NAME_CHARACTERS, required=True),
        domain=word_check("domain", domain) if domain else "",
        description=text_check("description", description, MAX_CONTENT_CHARACTERS),
        steps=_steps_check(steps),
        tags=tags_check(tags),
        scope=tier_of(choice_check("scope", scope, Scope.values), project, task),
        project=project,
        task=task,
        importance=unit_check("importance", importance),
        endorsed=by.is_person,
        origin=origin_of(by),
    )
    procedure.save(force_insert=True)
    quarantine_if_needed(procedure, by)
    index_put([entry_of(procedure)])
    audit_record(
        by=by,
        action="procedure.create",
        target=procedure,
        agent=agent,
        after={"name": procedure.name, "domain": procedure.domain, "steps": procedure.steps, **carried_keys(procedure)},
    )
    return procedure


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
    change_check(procedure, by, "memory.change_procedure")
    given = {
        "name": None if name is None else text_check("name", name, MAX_NAME_CHARACTERS, required=True),
        "domain": word_check("domain", domain) if domain else domain,
        "description": None if description is None else text_check("description", description, MAX_CONTENT_CHARACTERS),
        "steps": None if steps is None else _steps_check(steps),
        "tags": None if tags is None else tags_check(tags),
        "importance": None if importance is None else unit_check("importance", importance),
        "active": active,
    }
    procedure = row_lock(procedure)
    keys = keys_changed(procedure, scope, project, task)
    by.require_project(keys.get("project", procedure.project))
    given |= keys
    flags = by.kind == "system" and all(value is None for name, value in given.items() if name != "tags")
    if not flags:
        human_author_check(procedure, by)
    before, after = fields_change(procedure, given)
    if after:
        memory_endorse(procedure, by)
        quarantine_if_needed(procedure, by)
        index_put([entry_of(procedure)])
        audit_record(
            by=by, action="procedure.update", target=procedure, agent=procedure.agent, before=before, after=after
        )
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
