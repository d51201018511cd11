"""Facts verified by people: only people can retire or replace them.

A fact is `endorsed` once a person wrote, confirmed, edited or kept it, or verified it when restoring it. A token, judge
or schedule that would retire it opens a review instead. Tokens also cannot replace a fact with a pending review.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import Q

from identity.principal import Principal
from memory.models import Fact, FactChange, MemoryReview
from memory.services.facts.history import fact_change_record
from memory.services.memory_write import row_lock
from nousweb.lib.errors import Conflict


def endorse(fact: Fact, by: Principal) -> dict[str, Any]:
    """Set `endorsed` if `by` is a person; returns the value before for the history entry, or {} without a change.

    The caller saves the fact.
    """
    if not by.is_person or fact.endorsed:
        return {}
    fact.endorsed = True
    return {"endorsed": False}


def endorsement_change(
    *, fact: Fact, by: Principal, endorsed: bool = True, reason: str = "", evidence: Mapping[str, Any] | None = None
) -> bool:
    """Set or remove the mark of verification by people, with a history entry; returns whether it changed.

    Call it in the transaction of a person's decision, which has its own audit record.
    """
    fact = row_lock(fact)
    if not by.is_person or fact.endorsed is endorsed:
        return False
    fact.endorsed = endorsed
    fact.save(update_fields=["endorsed"])
    before = {"endorsed": not endorsed}
    fact_change_record(fact, FactChange.Action.EDITED, by, reason=reason, before=before, evidence=evidence)
    return True


def oldest_pending_review(fact: Fact) -> MemoryReview | None:
    """The oldest review of this fact about which people are asked, or None; a blind sample changes nothing."""
    of_its_agent = MemoryReview.objects.filter(agent=fact.agent_id, status__in=MemoryReview.ASKED)
    of_its_agent = of_its_agent.exclude(details__has_key="blind")
    return of_its_agent.filter(Q(old=fact) | Q(new=fact)).order_by("created_at").first()


def retirement_check(fact: Fact, by: Principal, *, resolves: UUID | None = None) -> None:
    """Raise Conflict if `by` may not retire `fact`: people have verified it, or a review of it is pending.

    The row must be locked. `resolves` is the review that the judge `by` resolves with it; then other reviews are
    ignored.
    """
    if by.is_person:
        return
    if fact.endorsed:
        raise Conflict(
            "This fact is verified by people: only people can let another fact replace it.", fact=str(fact.pk)
        )
    if resolves is None and (pending := oldest_pending_review(fact)):
        raise Conflict(
            f"People are reviewing this fact (review {pending.asked_by}): it does not change before they have decided.",
            review=pending.asked_by,
        )
