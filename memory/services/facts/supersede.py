"""Letting one fact take the place of another one that is true no longer."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Fact, FactChange
from memory.models.project_scope import carried_keys, covers, place_name
from memory.persona import change_check
from memory.policy import CATEGORY_PERMISSIONS, MAX_REMARK_CHARACTERS
from memory.services.facts.endorsement import endorsement_change, retirement_check
from memory.services.facts.history import change_record, iso, retirement_time
from memory.services.facts.locks import pair_lock
from memory.services.index_writer import index_put
from memory.services.trust import least_trusted
from memory.types import entry_of
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid
from nousweb.lib.validation import past_check, text_check

Action = FactChange.Action


def reach_check(old: Fact, new: Fact) -> None:
    """Raise Invalid unless `new` comes up wherever `old` did: else others would lose what they know."""
    if not covers(new, old):
        where = f"belongs to {place_name(old)}" if carried_keys(old) else "is valid everywhere"
        raise Invalid(
            f"The new fact belongs to {place_name(new)}, and the old one {where}: it cannot replace it there. "
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
    """Let `new` take the place of `old`, which was true until `at`; returns both as they are now.

    `at` is a moment in the world; without it, since when `new` is true, else when it was learned. The old
    fact keeps both times: it ends in the world at `at`, or where it had ended before, and in the agent's mind
    now. One whose time has not come never begins: its span stays as it was given, and counts no longer.

    A person who decides so makes the new one people's word; `resolves` is the review that a judge resolves by it.
    Raises Conflict when either is retired already, or when the old one is people's word or being asked about and `by`
    is no person; Invalid for a fact in its own place, one that others would not see or a span turned round,
    NotAllowed where the category of the old one needs a right of its own.
    """
    change_check(old, by, "memory.add_fact")
    change_check(new, by, "memory.add_fact")
    if old.category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[old.category], old.agent)
    if old.pk == new.pk:
        raise Invalid("A fact cannot supersede itself.", field="fact_id")
    if (old.agent_id, old.persona) != (new.agent_id, new.persona):
        raise Invalid("Both facts must belong to the same memory.", field="fact_id")
    reach_check(old, new)
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
    change_record(
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
        change_record(new, Action.EDITED, by, other=old, before={"valid_from": None}, at=now)
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
