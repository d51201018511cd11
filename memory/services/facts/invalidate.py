"""Invalidate a fact: record that it was never true."""

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Fact, FactChange
from memory.persona import change_check
from memory.policy import MAX_REMARK_CHARACTERS
from memory.services.facts.history import fact_change_record, iso, retirement_time
from memory.services.memory_write import row_lock
from memory.services.search_index.writer import index_put
from memory.types import entry_of
from nousweb.lib import clock
from nousweb.lib.errors import Conflict
from nousweb.lib.validation import text_check

Action = FactChange.Action


@agent_transaction(of="fact")
def fact_invalidate(*, fact: Fact, by: Principal, reason: str = "") -> Fact:
    """Mark a fact as never true: it leaves every view by valid time, and stays in views by recorded time.

    Its `valid_from` and `valid_until` keep their values but no longer apply. Raises Conflict if it is invalidated
    already.
    """
    change_check(fact, by, "memory.change_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    fact = row_lock(fact)
    if fact.invalidated_at is not None:
        raise Conflict("This fact is already marked as wrong.")
    now = retirement_time(fact, clock.now())
    before = {"active": fact.active, "retired_at": iso(fact.retired_at), "valid_until": iso(fact.valid_until)}
    # A fact that was superseded before keeps the time at which it was retired.
    fact.active, fact.retired_at, fact.invalidated_at = False, fact.retired_at or now, now
    fact.save(update_fields=["active", "retired_at", "invalidated_at"])
    fact_change_record(fact, Action.INVALIDATED, by, reason=reason, before=before, at=now)
    index_put([entry_of(fact)])
    audit_record(
        by=by,
        action="fact.invalidate",
        target=fact,
        agent=fact.agent,
        before=before,
        after={"active": False, "invalidated_at": iso(now)},
        message=reason,
    )
    return fact
