"""Apply a resolution of two facts, by the comparison, a judge or a person."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from identity.principal import Principal
from memory.models import Fact, MemoryReview, scope_contains
from memory.services.facts.confirm import fact_confirm
from memory.services.facts.endorsement import endorsement_change
from memory.services.facts.history import iso
from memory.services.facts.invalidate import fact_invalidate
from memory.services.facts.locks import facts_lock
from memory.services.facts.merge import fact_merge
from memory.services.facts.supersede import fact_supersede

Resolution = MemoryReview.Resolution


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
      narrower scope.
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
    done = {"confirmed": {"fact": str(known.pk), "at": iso(known.last_confirmed_at), "before": iso(before)}}
    if not new_is_stored:
        return known, new, done
    new, known = fact_merge(duplicate=new, into=known, by=by, score=score, reason=reason, evidence=evidence)
    return known, new, done | {"merged": [str(new.pk)]}
