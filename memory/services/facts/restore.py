"""Restore a retired fact."""

from datetime import datetime

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Fact, FactChange
from memory.persona import change_check
from memory.policy import MAX_REMARK_CHARACTERS
from memory.services.facts.endorsement import endorse as endorse_fact
from memory.services.facts.history import fact_change_record, iso
from memory.services.facts.locks import pair_lock
from memory.services.memory_write import row_lock
from memory.services.search_index.writer import index_put
from memory.types import entry_of
from nousweb.lib.errors import Conflict
from nousweb.lib.validation import text_check

Action = FactChange.Action


@agent_transaction(of="fact")
def fact_restore(*, fact: Fact, by: Principal, reason: str = "", endorse: bool = False) -> Fact:
    """Restore a retired fact as it was, with the `valid_until` that it had before it was retired.

    With `endorse`, a person also verifies it; else it is verified by people only if it was before. This is a new entry
    in its history. A fact that superseded it stays active too, without the `valid_from` that it got from superseding.
    Raises Conflict if the fact is active or quarantined, or has changed in the meantime.
    """
    change_check(fact, by, "memory.change_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    successor = Fact.objects.filter(supersedes=fact.pk).first()
    if successor is not None:
        fact, successor = pair_lock(fact, successor)
    else:
        fact = row_lock(fact)
    if fact.active:
        raise Conflict("This fact is active: there is nothing to restore.")
    if fact.held:
        raise Conflict("This fact is quarantined. Resolve its review first.")
    if fact.superseded_by_id != (successor.pk if successor else None):
        raise Conflict("This fact has changed in the meantime. Reload it.")
    before = {
        "active": False,
        "retired_at": iso(fact.retired_at),
        "invalidated_at": iso(fact.invalidated_at),
        "valid_until": iso(fact.valid_until),
        "superseded_by": str(fact.superseded_by_id) if fact.superseded_by_id else None,
    }
    fact.valid_until = _valid_until_before_retirement(fact)
    fact.active, fact.retired_at, fact.invalidated_at, fact.superseded_by = True, None, None, None
    fact.save(update_fields=["active", "retired_at", "invalidated_at", "superseded_by", "valid_until"])
    changed_fields = before | (endorse_fact(fact, by) if endorse else {})
    fact.save(update_fields=["endorsed"])
    fact_change_record(fact, Action.RESTORED, by, other=successor, reason=reason, before=changed_fields)
    changed = [fact]
    if successor is not None and _begins_as_successor(successor, fact):
        fact_change_record(successor, Action.EDITED, by, other=fact, before={"valid_from": iso(successor.valid_from)})
        successor.valid_from = None
        successor.save(update_fields=["valid_from"])
        changed.append(successor)
    index_put(entry_of(each) for each in changed)
    audit_record(
        by=by,
        action="fact.restore",
        target=fact,
        agent=fact.agent,
        before=before,
        after={"active": True, "valid_until": iso(fact.valid_until)},
        message=reason,
    )
    return fact


def _valid_until_before_retirement(fact: Fact) -> datetime | None:
    """The `valid_until` of the fact before it was last retired, from its history."""
    transitions = list(FactChange.objects.filter(fact=fact, action__in=FactChange.VALIDITY_TRANSITIONS).order_by("id"))
    restored = [place for place, change in enumerate(transitions) if change.action == Action.RESTORED]
    since = transitions[restored[-1] + 1 :] if restored else transitions
    # An imported fact without history keeps its current value.
    valid_until = since[0].before.get("valid_until") if since else iso(fact.valid_until)
    return datetime.fromisoformat(valid_until) if valid_until else None


def _begins_as_successor(fact: Fact, of: Fact) -> bool:
    """Whether `fact` had no `valid_from` before it superseded `of`."""
    last = FactChange.objects.filter(fact=fact, other=of, action=Action.EDITED).order_by("-id").first()
    return last is not None and last.before == {"valid_from": None}
