"""Write the history of a fact, in the transaction of the change."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from identity.principal import Principal
from memory.models import Fact, FactChange
from memory.services.reviews.states import reviews_settle
from nousweb.lib import clock


def fact_change_record(
    fact: Fact,
    action: FactChange.Action,
    by: Principal,
    *,
    other: Fact | None = None,
    score: float | None = None,
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    at: datetime | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> FactChange:
    """Save a history entry of `fact`, which is saved already; `before` and `evidence` must be JSON values.

    Reviews whose reason ends with the change are closed, and undecided ones of a fact that people verify now are asked.
    """
    change = FactChange.objects.create(
        agent_id=fact.agent_id,
        fact=fact,
        action=action,
        other=other,
        score=score,
        reason=reason,
        before=dict(before or {}),
        evidence=dict(evidence or {}),
        at=at or clock.now(),
        author_kind=by.kind,
        author_id=by.id,
        author_name=by.name,
    )
    verified = change.before.get("endorsed") is False
    if action in FactChange.VALIDITY_TRANSITIONS or "valid_until" in change.before or verified:
        reviews_settle(agent_id=fact.agent_id, facts=[fact.pk])
    return change


def iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def retirement_time(fact: Fact, now: datetime) -> datetime:
    """The `retired_at` of a fact that is retired now: `now`, but not before it was recorded.

    With differing or adjusted clocks of machines, a fact may have been recorded after `now`.
    """
    return max(now, fact.recorded_at)
