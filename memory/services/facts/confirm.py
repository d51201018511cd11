"""Count confirmations of a fact, and undo one."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Fact, FactChange
from memory.persona import change_check
from memory.policy import MAX_REMARK_CHARACTERS
from memory.services.facts.endorsement import endorse
from memory.services.facts.history import fact_change_record, iso
from memory.services.memory_write import row_lock
from nousweb.lib import clock
from nousweb.lib.errors import Conflict
from nousweb.lib.validation import text_check

Action = FactChange.Action


@agent_transaction(of="fact")
def fact_confirm(
    *,
    fact: Fact,
    by: Principal,
    score: float | None = None,
    reason: str = "",
    evidence: Mapping[str, Any] | None = None,
) -> Fact:
    """Count a confirmation of a fact. `score`: similarity of the new statement in [0, 1], if it was measured.

    `evidence`: reasons of the change, as JSON values. Raises Conflict if the fact is retired.
    """
    change_check(fact, by, "memory.add_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    fact = row_lock(fact)
    if not fact.active:
        raise Conflict("This fact is retired; only active facts can be confirmed.")
    before = {"confirmation_count": fact.confirmation_count, "last_confirmed_at": iso(fact.last_confirmed_at)}
    fact.confirmation_count += 1
    fact.last_confirmed_at = clock.now()
    changed_fields = before | endorse(fact, by)
    fact.save(update_fields=["confirmation_count", "last_confirmed_at", "endorsed"])
    fact_change_record(fact, Action.CONFIRMED, by, score=score, reason=reason, before=changed_fields, evidence=evidence)
    audit_record(
        by=by,
        action="fact.confirm",
        target=fact,
        agent=fact.agent,
        before=before,
        after={
            "confirmation_count": fact.confirmation_count,
            "last_confirmed_at": iso(fact.last_confirmed_at),
        },
        message=reason,
    )
    return fact


@agent_transaction(of="fact")
def fact_unconfirm(*, fact: Fact, by: Principal, heard_at: datetime, before: datetime | None, reason: str = "") -> Fact:
    """Undo the confirmation of the time `heard_at`; `before` is the time of the one before it. This is a new change."""
    change_check(fact, by, "memory.change_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    fact = row_lock(fact)
    fields: dict[str, Any] = {"confirmation_count": max(fact.confirmation_count - 1, 0)}
    if fact.last_confirmed_at == heard_at:
        fields["last_confirmed_at"] = before
    was = {"confirmation_count": fact.confirmation_count, "last_confirmed_at": iso(fact.last_confirmed_at)}
    for name, value in fields.items():
        setattr(fact, name, value)
    fact.save(update_fields=list(fields))
    fact_change_record(fact, Action.EDITED, by, reason=reason, before=was)
    after = {"confirmation_count": fact.confirmation_count, "last_confirmed_at": iso(fact.last_confirmed_at)}
    audit_record(by=by, action="fact.unconfirm", target=fact, agent=fact.agent, before=was, after=after, message=reason)
    return fact
