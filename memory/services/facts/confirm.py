"""Counting that a fact was heard again, and taking that back."""

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
from memory.services.facts.history import change_record, iso
from memory.services.row_locks import row_lock
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
    """Count that a fact was heard again. `score` is the similarity, 0 to 1, of what was heard, if one was measured.

    `evidence` is what the change rests on, ready for JSON.

    Raises Conflict when the fact is no longer held to be true.
    """
    change_check(fact, by, "memory.add_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    fact = row_lock(fact)
    if not fact.active:
        raise Conflict("This fact is retired; only active facts can be confirmed.")
    before = {"confirmation_count": fact.confirmation_count, "last_confirmed_at": iso(fact.last_confirmed_at)}
    fact.confirmation_count += 1
    fact.last_confirmed_at = clock.now()
    held = before | endorse(fact, by)
    fact.save(update_fields=["confirmation_count", "last_confirmed_at", "endorsed"])
    change_record(fact, Action.CONFIRMED, by, score=score, reason=reason, before=held, evidence=evidence)
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
    """Take back one confirmation, as a new change: it was heard at `heard_at`, and the time before at `before`."""
    change_check(fact, by, "memory.change_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    fact = row_lock(fact)
    given: dict[str, Any] = {"confirmation_count": max(fact.confirmation_count - 1, 0)}
    if fact.last_confirmed_at == heard_at:
        given["last_confirmed_at"] = before
    was = {"confirmation_count": fact.confirmation_count, "last_confirmed_at": iso(fact.last_confirmed_at)}
    for name, value in given.items():
        setattr(fact, name, value)
    fact.save(update_fields=list(given))
    change_record(fact, Action.EDITED, by, reason=reason, before=was)
    after = {"confirmation_count": fact.confirmation_count, "last_confirmed_at": iso(fact.last_confirmed_at)}
    audit_record(by=by, action="fact.unconfirm", target=fact, agent=fact.agent, before=was, after=after, message=reason)
    return fact
