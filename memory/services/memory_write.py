"""The parts of every write of a memory: permission, lock, change, quarantine, index and audit record.

A memory is `endorsed` once a person wrote, changed, reviewed or closed it: tokens and schedules cannot rewrite it.
Facts have rules of their own (`memory.services.facts.changes`).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model

from identity.models import Agent, AgentRow
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.models import KEYS, Censor, Fact, Memory, Scope, ScopedMemory, Trust, keys_changed, user_write_check
from memory.persona import change_check
from memory.services.consent import memory_consent
from memory.services.memory_fields import fields_checked, keys_checked
from memory.services.quarantine.memories import quarantine_if_needed
from memory.services.search_index.writer import index_put, index_remove
from memory.services.trust import least_trusted, origin_check, origin_of, screened_as
from memory.types import entry_of
from nousweb.lib import Conflict, clock, existing
from nousweb.lib.transactions import transaction_lock

Row = TypeVar("Row", bound=AgentRow)
MemoryRow = TypeVar("MemoryRow", bound=Memory | Fact)


def memory_new(
    model: type[MemoryRow],
    agent: Agent,
    by: Principal,
    *,
    scope: str = Scope.GLOBAL,
    project: str = "",
    task: str = "",
    user: str = "",
    rests_on: str = "",
    origin: str = "",
    **fields: Any,
) -> MemoryRow:
    """An unsaved memory of `by` with these fields; `rests_on` is the trust class of what it is drawn from, if any, and
    `origin` what its writer says of where its words come from.

    Raises Invalid, naming the field, or NotAllowed.
    """
    by.require(f"memory.add_{model._meta.model_name}", agent)
    keys = keys_checked(scope, project, task, user_write_check(agent, by, user))
    by.require_project(keys["project"])
    declared, origin = origin, origin_of(by, *filter(None, [rests_on]), declared=origin)
    written = keys | fields_checked(model, fields)
    memory = model(agent=agent, persona=by.persona, endorsed=origin == Trust.PERSON, origin=origin, **written)
    memory.screened_as = screened_as(by, declared)
    return memory


def memory_add(memory: MemoryRow, by: Principal, action: str, after: Mapping[str, Any]) -> MemoryRow:
    """Store a new memory, index it or quarantine it, and record that."""
    memory.save(force_insert=True)
    memory_stored(memory, by, action, after=after)
    return memory


def memory_lock(memory: MemoryRow, by: Principal, permission: str, *, endorsed_too: bool = False) -> MemoryRow:
    """The memory, locked for a change by `by` until the transaction ends.

    Raises NotFound, NotAllowed, or Conflict if people verified it and `by` is no person, unless `endorsed_too`.
    """
    change_check(memory, by, permission)
    memory = row_lock(memory)
    if not endorsed_too:
        human_author_check(memory, by)
    return memory


def memory_change(memory: Memory | Fact, by: Principal, action: str, given: Mapping[str, Any]) -> None:
    """Change fields of a locked memory, index or quarantine it, and record that, if any differs; None keeps a value."""
    before, after = fields_change(memory, given)
    if after:
        memory_endorse(memory, by)
        memory_stored(memory, by, action, before=before, after=after)


def memory_update(
    memory: MemoryRow, by: Principal, fields: Mapping[str, Any], *, only: str, endorsed_too: bool = False
) -> MemoryRow:
    """Change those of the fields `only` that are given, and its keys, and record that; None keeps a value. An `origin`
    among the fields can only lower the trust class.

    Raises Invalid, NotAllowed, or Conflict if people verified it and `by` is no person, unless `endorsed_too`.
    """
    name = memory._meta.model_name
    memory = memory_lock(memory, by, f"memory.change_{name}", endorsed_too=endorsed_too)
    keys = {key: fields.get(key) for key in ("scope", *KEYS)}
    if unknown := fields.keys() - {*keys, "origin"} - set(only.split()):
        raise TypeError(f"{', '.join(sorted(unknown))} of a {name} cannot be changed.")
    given = fields_checked(type(memory), {key: value for key, value in fields.items() if key in only.split()})
    given |= origin_lowered(memory, fields.get("origin"), by)
    memory_change(memory, by, f"{name}.update", given | keys_move(memory, by, **keys))  # type: ignore[arg-type]
    return memory


def origin_lowered(memory: Memory | Fact, declared: str | None, by: Principal) -> dict[str, str]:
    """The field that a change sets whose words come from `declared`. Raises Invalid."""
    if not (declared and origin_check(declared)):
        return {}
    memory.screened_as = screened_as(by, declared)
    return {"origin": least_trusted((memory.origin, declared))}


def memory_stored(
    memory: Any, by: Principal, action: str, *, after: Any, before: Any = None, message: str = ""
) -> None:
    """Index or quarantine a memory that has just been written, and record that. Raises NotAllowed where the agent's
    consent policy refuses it."""
    memory.consent = memory_consent(memory, by) if by.kind == "token" else None
    quarantine_if_needed(memory)
    memory_index(memory)
    audit_record(by=by, action=action, target=memory, agent=memory.agent, before=before, after=after, message=message)


def memory_index(memory: Any) -> None:
    """Keep the memory's row of the index, if there is anything to find it by; censors are not searched."""
    if isinstance(memory, Censor):
        return
    entry = entry_of(memory)
    if entry.text or entry.quarantined:
        index_put([entry])
    else:
        index_remove(memory.agent_id, memory.persona, entry.item_type, [entry.item_id])


def keys_move(
    memory: ScopedMemory, by: Principal, scope: str | None, project: str | None, task: str | None, user: str | None
) -> dict[str, str]:
    """The fields that a move to another scope or other keys sets; None keeps one. Raises Invalid or NotAllowed."""
    keys = keys_changed(memory, scope, project, task, user)
    by.require_project(keys.get("project", memory.project))
    by.require_user(keys.get("user", memory.user))
    return keys


def memory_endorse(memory: Memory | Fact, by: Principal) -> None:
    """Mark a memory as verified by people if `by`, who has just changed it, is a person. Its row must be locked."""
    if by.is_person and not memory.endorsed:
        memory.endorsed = True
        memory.save(update_fields=["endorsed"])


def human_author_check(memory: Memory | Fact, by: Principal) -> None:
    """Raise Conflict if `memory` is verified by people and `by` is not a person. Its row must be locked."""
    if memory.endorsed and not by.is_person:
        raise Conflict(f"People wrote or decided this {memory._meta.verbose_name}: only people can change it.")


def row_lock(row: Row) -> Row:
    """The row as it stands, locked until the transaction ends, with its agent. Raises NotFound when it has gone.

    Its key stays free: the subconscious may refer to a row of the actor's, and neither waits for the other.
    """
    rows = type(row)._default_manager.select_for_update(of=("self",), no_key=True).select_related("agent")
    return existing(rows.filter(agent=row.agent_id, pk=row.pk).first(), f"There is no such {row._meta.verbose_name}.")


def fields_change(row: Model, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Save those of `values` that differ; return what they were and what they are, ready for the audit trail.

    A value of None leaves its field alone. Two empty dicts mean that nothing changed and nothing was saved.
    """
    changed = changed_values(row, values)
    before = {name: plain_value(row, name) for name in changed}
    for name, value in changed.items():
        setattr(row, name, value)
    if changed:
        now = clock.now()
        stamp: dict[str, datetime | None] = {"updated_at": now} if hasattr(row, "updated_at") else {}
        if "active" in changed and hasattr(row, "retired_at"):
            stamp["retired_at"] = None if changed["active"] else now
        for name, moment in stamp.items():
            setattr(row, name, moment)
        row.save(update_fields=[*changed, *stamp])
    return before, {name: plain_value(row, name) for name in changed}


def changed_values(row: Model, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `values` that differ from the row's; None leaves a field alone."""
    return {name: value for name, value in values.items() if value is not None and value != getattr(row, name)}


def plain(value: Any) -> Any:
    """A moment or a key as JSON has it; anything else unchanged."""
    return value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, UUID) else value


def plain_value(row: Model, name: str) -> Any:
    """The value of a field as JSON has it; of a reference, the key."""
    return plain(getattr(row, row._meta.get_field(name).attname))  # type: ignore[union-attr]


def learning_lock(agent: Agent, persona: str) -> None:
    """Take the lock for learning in this memory until the end of the transaction, so that learning is serialised."""
    transaction_lock(f"learn:{agent.pk}:{persona}")
