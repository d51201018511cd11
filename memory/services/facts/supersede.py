"""Supersede a fact that is no longer true by another one."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Fact, FactChange, carried_keys, scope_contains, scope_label
from memory.persona import change_check
from memory.policy import CATEGORY_PERMISSIONS, MAX_REMARK_CHARACTERS
from memory.services.facts.endorsement import endorsement_change, retirement_check
from memory.services.facts.history import fact_change_record, iso, retirement_time
from memory.services.facts.locks import pair_lock
from memory.services.search_index.writer import index_put
from memory.services.trust import least_trusted
from memory.types import entry_of
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid
from nousweb.lib.validation import past_check, text_check

Action = FactChange.Action


def successor_scope_check(old: Fact, new: Fact) -> None:
    """Raise Invalid unless the scope of `new` contains that of `old`: else readers of `old` would lose the fact."""
    if not scope_contains(new, old):
        where = f"belongs to {scope_label(old)}" if carried_keys(old) else "is valid everywhere"
        raise Invalid(
            f"The new fact belongs to {scope_label(new)}, and the old one {where}: it cannot replace it there. "
            "Keep both, or mark the old one as wrong.",
            field="fact_id",
        )


@agent_transaction(of="old")
def fact_supersede(
    *,
    old: Fact,
    new: Fact,
    by: Principal,
    reason: str = "",
    at: datetime | None = None,
    score: float | None = None,
    evidence: Mapping[str, Any] | None = None,
    resolves: UUID | None = None,
) -> tuple[Fact, Fact]:
    """Supersede `old`, which was true until `at`, by `new`; returns both with their new values.

    `at` is a valid time; without it, the `valid_from` of `new`, else the time when `new` was recorded. The old fact
    gets `at` as `valid_until`, unless it ended before, and is retired now. A fact that is not valid yet keeps its
    valid time, which then no longer applies.

    If `by` is a person, the new fact counts as verified by people. `resolves`: the review that a judge resolves by it.
    Raises Conflict if either is retired, or if `by` is not a person and the old fact is verified by people or has a
    pending review; Invalid for the same fact, a narrower scope of `new` or an invalid period; NotAllowed if the
    category of the old fact needs a permission of its own.
    """
    change_check(old, by, "memory.add_fact")
    change_check(new, by, "memory.add_fact")
    if old.category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[old.category], old.agent)
    if old.pk == new.pk:
        raise Invalid("A fact cannot supersede itself.", field="fact_id")
    if (old.agent_id, old.persona) != (new.agent_id, new.persona):
        raise Invalid("Both facts must belong to the same memory.", field="fact_id")
    successor_scope_check(old, new)
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    at = past_check("at", at)
    old, new = pair_lock(old, new)
    if not old.active:
        raise Conflict(
            "This fact is already superseded." if old.superseded_by_id else "This fact is already retired.",
            superseded_by=str(old.superseded_by_id or ""),
        )
    if not new.active:
        raise Conflict("The new fact is retired itself.")
    retirement_check(old, by, resolves=resolves)
    now = clock.now()
    begun = at or new.valid_from or min(max(old.recorded_at, new.recorded_at), now)
    never_began = old.valid_from is not None and now < old.valid_from and begun <= old.valid_from
    if begun > now and not never_began:
        raise Invalid("The new fact is not valid yet. Supersede the old fact when it is.", field="at")
    ended: datetime | None = begun
    if never_began or (old.valid_until is not None and old.valid_until < begun):
        ended = old.valid_until
    if old.valid_from is not None and not never_began and begun <= old.valid_from:
        raise Invalid(
            f"The old fact is valid only since {old.valid_from.isoformat()}. If it was never true, mark it as wrong.",
            field="at",
        )
    now = retirement_time(old, now)
    before = {"valid_until": iso(old.valid_until), "active": True}
    old.active, old.retired_at, old.valid_until, old.superseded_by = False, now, ended, new
    old.save(update_fields=["active", "retired_at", "valid_until", "superseded_by"])
    fact_change_record(
        old, Action.SUPERSEDED, by, other=new, score=score, reason=reason, before=before, at=now, evidence=evidence
    )
    # What replaces a memory is trusted no more than that, unless a person says so.
    if not by.is_person and (origin := least_trusted((old.trust, new.origin))) != new.origin:
        new.origin = origin
        new.save(update_fields=["origin"])
    # What people wrote or kept only people change: their fact begins when they say so.
    bound = new.endorsed and not by.is_person
    if not bound and new.valid_from is None and (new.valid_until is None or new.valid_until > begun):
        new.valid_from = begun
        new.save(update_fields=["valid_from"])
        fact_change_record(new, Action.EDITED, by, other=old, before={"valid_from": None}, at=now)
    if endorsement_change(fact=new, by=by, reason=reason, evidence=evidence):
        new.endorsed = True
    index_put([entry_of(old), entry_of(new)])
    audit_record(
        by=by,
        action="fact.supersede",
        target=old,
        agent=old.agent,
        before=before | {"content": old.content},
        after={
            "valid_until": iso(old.valid_until),
            "active": False,
            "superseded_by": str(new.pk),
            "content": new.content,
        },
        message=reason,
    )
    return old, new
