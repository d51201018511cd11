"""Merge a duplicate fact into another one."""

from collections.abc import Mapping
from typing import Any

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Fact, FactChange, scope_contains
from memory.persona import change_check
from memory.policy import CATEGORY_PERMISSIONS, MAX_REMARK_CHARACTERS
from memory.services.facts.endorsement import retirement_check
from memory.services.facts.history import fact_change_record, iso, retirement_time
from memory.services.facts.locks import pair_lock
from memory.services.search_index.writer import index_put
from memory.types import entry_of
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid
from nousweb.lib.validation import text_check

Action = FactChange.Action


@agent_transaction(of="duplicate")
def fact_merge(
    *,
    duplicate: Fact,
    into: Fact,
    by: Principal,
    reason: str = "",
    score: float | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> tuple[Fact, Fact]:
    """Retire `duplicate`, which states the same as `into`; returns both with their new values.

    Unlike a superseded fact, the duplicate keeps its valid time. Raises Conflict if either is retired, or if
    the duplicate is verified by people and `by` is not a person; Invalid for the same fact, a fact of another memory,
    or a narrower scope of `into`.
    """
    change_check(duplicate, by, "memory.add_fact")
    change_check(into, by, "memory.add_fact")
    if duplicate.category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[duplicate.category], duplicate.agent)
    if duplicate.pk == into.pk or (duplicate.agent_id, duplicate.persona) != (into.agent_id, into.persona):
        raise Invalid("A fact can be merged only into another fact of the same memory.", field="fact_id")
    if not scope_contains(into, duplicate):
        raise Invalid("A fact of a project or task cannot absorb a fact with a wider scope.", field="fact_id")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    duplicate, into = pair_lock(duplicate, into)
    if not duplicate.active or not into.active:
        raise Conflict("Only active facts can be merged.")
    if duplicate.endorsed:
        retirement_check(duplicate, by)
    now = retirement_time(duplicate, clock.now())
    before = {"active": True, "valid_until": iso(duplicate.valid_until)}
    duplicate.active, duplicate.retired_at, duplicate.superseded_by = False, now, into
    duplicate.save(update_fields=["active", "retired_at", "superseded_by"])
    fact_change_record(
        duplicate, Action.MERGED, by, other=into, score=score, reason=reason, before=before, at=now, evidence=evidence
    )
    index_put([entry_of(duplicate)])
    audit_record(
        by=by,
        action="fact.merge",
        target=duplicate,
        agent=duplicate.agent,
        before=before | {"content": duplicate.content},
        after={"active": False, "superseded_by": str(into.pk), "content": into.content},
        message=reason,
    )
    return duplicate, into
