"""Decisions about two facts, by the comparison, a judge or a person: merge, supersede, or what a resolution says."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.models import Fact, FactChange, MemoryReview, carried_keys, plain, scope_contains, scope_label
from memory.persona import change_check
from memory.policy import CATEGORY_PERMISSIONS
from memory.services.facts.changes import (
    endorsement_change,
    fact_change_record,
    fact_confirm,
    fact_invalidate,
    fact_write,
    facts_lock,
    pair_lock,
    retirement_check,
    retirement_time,
)
from memory.services.memory_write import source_values
from memory.services.search_index.writer import index_put
from memory.services.trust import least_trusted
from memory.types import entry_of
from nousweb.lib import Conflict, Invalid, clock, past_check

Action = FactChange.Action
Resolution = MemoryReview.Resolution


def _retiring_check(old: Fact, new: Fact, by: Principal) -> None:
    """Raise unless `by` may change both facts, and retire one of the category of `old`."""
    change_check(old, by, "memory.add_fact")
    change_check(new, by, "memory.add_fact")
    if old.category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[old.category], old.agent)


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
    _retiring_check(duplicate, into, by)
    if duplicate.pk == into.pk or (duplicate.agent_id, duplicate.persona) != (into.agent_id, into.persona):
        raise Invalid("A fact can be merged only into another fact of the same memory.", field="fact_id")
    if not scope_contains(into, duplicate):
        raise Invalid("A fact of a project or task cannot absorb a fact with a wider scope.", field="fact_id")
    duplicate, into = pair_lock(duplicate, into)
    if not duplicate.active or not into.active:
        raise Conflict("Only active facts can be merged.")
    if duplicate.endorsed:
        retirement_check(duplicate, by)
    now = retirement_time(duplicate, clock.now())
    fact_write(
        duplicate, Action.MERGED, by, "fact.merge", {"active": False, "retired_at": now, "superseded_by": into},
        before=("active", "valid_until"), after=("active",),
        reason=reason, other=into, score=score, at=now, evidence=evidence,
    )  # fmt: skip
    return duplicate, into


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
    _retiring_check(old, new, by)
    if old.pk == new.pk:
        raise Invalid("A fact cannot supersede itself.", field="fact_id")
    if (old.agent_id, old.persona) != (new.agent_id, new.persona):
        raise Invalid("Both facts must belong to the same memory.", field="fact_id")
    successor_scope_check(old, new)
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
    fact_write(
        old, Action.SUPERSEDED, by, "fact.supersede",
        {"active": False, "retired_at": now, "valid_until": ended, "superseded_by": new},
        before=("valid_until", "active"), reason=reason, other=new, score=score, at=now, evidence=evidence,
    )  # fmt: skip
    # What replaces a memory is trusted no more than that, unless a person says so.
    if not by.is_person and (origin := least_trusted((old.trust, new.origin))) != new.origin:
        new.put(origin=origin)
    # What people wrote or kept only people change: their fact begins when they say so.
    bound = new.endorsed and not by.is_person
    if not bound and new.valid_from is None and (new.valid_until is None or new.valid_until > begun):
        new.put(valid_from=begun)
        fact_change_record(new, Action.EDITED, by, other=old, before={"valid_from": None}, at=now)
        index_put([entry_of(new)])
    if endorsement_change(fact=new, by=by, reason=reason, evidence=evidence):
        new.endorsed = True
    return old, new


@dataclass(frozen=True, slots=True)
class AppliedResolution:
    """Both facts with their new values. `undo`: the data for undoing it, as JSON values."""

    old: Fact
    new: Fact
    undo: dict[str, Any]


def resolution_apply(
    *,
    resolution: MemoryReview.Resolution,
    old: Fact,
    new: Fact,
    by: Principal,
    reason: str = "",
    score: float | None = None,
    evidence: Mapping[str, Any] | None = None,
    review: MemoryReview | None = None,
) -> AppliedResolution:
    """Apply a resolution to two facts. Call it in a transaction with the agent's lock.

    - same: `old` is confirmed, and `new`, if it is stored, is merged into it; the other way round if `old` has a
      narrower scope. If both expire, and people have not verified it, the later end holds. Its source is the new one.
    - replace: `new` supersedes `old`.
    - old_wrong, new_wrong: the fact is invalidated.
    - merge: `old` is merged into `new`, which contains its statement.
    - Any other resolution changes neither.

    `score`: similarity in [0, 1], None for the same words. `evidence`: JSON values. `review`: the review that is
    resolved, if any; the facts that stay active after a person's resolution count as verified by people. Raises
    Conflict, Invalid, NotAllowed or NotFound, as the services of facts do.
    """
    undo: dict[str, Any] = {}
    if review is not None:
        locked = facts_lock(old.agent_id, [old.pk, new.pk])
        old, new = locked.get(old.pk, old), locked.get(new.pk, new)
        if by.is_person:
            undo["endorsed"] = {str(key): fact.endorsed for key, fact in locked.items()}
    standing: tuple[Fact, ...] = ()
    match resolution:
        case Resolution.SAME:
            if review is not None and not scope_contains(old, new):
                # A fact with a narrower scope cannot replace one with a wider scope.
                new, old, done = _same(new, old, by, reason, score, evidence, review)
            else:
                old, new, done = _same(old, new, by, reason, score, evidence, review)
            undo |= done
        case Resolution.REPLACE:
            old, new = fact_supersede(
                old=old,
                new=new,
                by=by,
                reason=reason,
                score=score,
                evidence=evidence,
                resolves=review.pk if review else None,
            )
            undo["superseded"] = str(old.pk)
        case Resolution.OLD_WRONG:
            old = fact_invalidate(fact=old, by=by, reason=reason)
            undo["invalidated"], standing = str(old.pk), (new,)
        case Resolution.NEW_WRONG:
            new = fact_invalidate(fact=new, by=by, reason=reason)
            undo["invalidated"], standing = str(new.pk), (old,)
        case Resolution.MERGE:
            old, new = fact_merge(duplicate=old, into=new, by=by, reason=reason, evidence=evidence)
            undo["merged"] = [str(old.pk)]
        case _:
            standing = (old, new)
    if review is not None and by.is_person:
        for fact in standing:
            endorsement_change(fact=fact, by=by, reason=reason, evidence={"review": str(review.pk)})
    return AppliedResolution(old, new, undo)


def _same(
    old: Fact,
    new: Fact,
    by: Principal,
    reason: str,
    score: float | None,
    evidence: Mapping[str, Any] | None,
    review: MemoryReview | None,
) -> tuple[Fact, Fact, dict[str, Any]]:
    new_is_stored = not new._state.adding
    # What is said about the pair is kept with a new fact that is stored, not with the old one: it is erased with it.
    on_old = ({"review": str(review.pk)} if review else {}) if new_is_stored else evidence
    heard = "Learned again." if score is None else "Learned again in other words."
    before = old.last_confirmed_at
    known = fact_confirm(
        fact=old, by=by, score=score, reason="The same in other words." if review else heard, evidence=on_old
    )
    values: dict[str, Any] = {}
    if known.expires_at and new.expires_at and known.expires_at < new.expires_at:
        values = {"expires_at": new.expires_at} if by.is_person or not known.endorsed else {}
    if new.source_ref:
        values |= source_values(known, new.source_ref)
    if values:
        known = fact_write(known, Action.EDITED, by, "fact.update", values, before=values, reason=heard)
    done = {"confirmed": {"fact": str(known.pk), "at": plain(known.last_confirmed_at), "before": plain(before)}}
    if not new_is_stored:
        return known, new, done
    new, known = fact_merge(duplicate=new, into=known, by=by, score=score, reason=reason, evidence=evidence)
    return known, new, done | {"merged": [str(new.pk)]}
