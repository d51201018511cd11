"""People's word about facts: what they wrote or decided binds whoever is no person.

A fact is `endorsed` once a person wrote, confirmed, edited, restored or kept it. Then no token, judge or schedule
retires it; what would do so becomes a review. Nor does a token replace what people are being asked about.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import Q

from identity.principal import Principal
from memory.models import Fact, FactChange, MemoryReview
from memory.services.facts.history import change_record
from memory.services.row_locks import row_lock
from nousweb.lib.errors import Conflict


def endorse(fact: Fact, by: Principal) -> dict[str, Any]:
    """Set `endorsed` where a person acts; returns what it was, for the change that is recorded, or nothing.

    The caller saves the fact.
    """
    if not by.is_person or fact.endorsed:
        return {}
    fact.endorsed = True
    return {"endorsed": False}


def endorsement_change(
    *, fact: Fact, by: Principal, endorsed: bool = True, reason: str = "", evidence: Mapping[str, Any] | None = None
) -> bool:
    """Make a fact people's word, or no more, as a change of its own; returns whether it was otherwise.

    Called in the transaction of a person's decision, which has its own audit record.
    """
    fact = row_lock(fact)
    if not by.is_person or fact.endorsed is endorsed:
        return False
    fact.endorsed = endorsed
    fact.save(update_fields=["endorsed"])
    before = {"endorsed": not endorsed}
    change_record(fact, FactChange.Action.EDITED, by, reason=reason, before=before, evidence=evidence)
    return True


def waiting_review(fact: Fact) -> MemoryReview | None:
    """The review of this fact that has waited longest for people, or None."""
    return MemoryReview.objects.pending().filter(Q(old=fact) | Q(new=fact)).order_by("created_at").first()


def retirement_check(fact: Fact, by: Principal, *, resolves: UUID | None = None) -> None:
    """Raise Conflict where `by` may not retire `fact`, whose row is locked: it is people's word, or they are asked.

    `resolves` is the review that `by`, a judge, resolves by it; then the others do not matter.
    """
    if by.is_person:
        return
    if fact.endorsed:
        raise Conflict(
            "This fact is verified by people: only people can let another fact replace it.", fact=str(fact.pk)
        )
    if resolves is None and (waiting := waiting_review(fact)):
        raise Conflict(
            f"People are reviewing this fact (review {waiting.pk}): it does not change before they have decided.",
            review=str(waiting.pk),
        )
