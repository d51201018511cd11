"""Writing a fact's history, inside the transaction of the change."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from identity.principal import Principal
from memory.models import Fact, FactChange
from nousweb.lib import clock


def change_draft(
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
    """What happened to `fact`, not kept yet; `before` and `evidence` are ready for JSON."""
    return FactChange(
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


def change_record(fact: Fact, action: FactChange.Action, by: Principal, **given: Any) -> FactChange:
    """Keep what happened to `fact`; `given` is what `change_draft` takes."""
    change = change_draft(fact, action, by, **given)
    change.save(force_insert=True)
    return change


def iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def retirement_time(fact: Fact, now: datetime) -> datetime:
    """When a fact that is retired now leaves the agent's mind: never before it was learned, whatever clocks say.

    Machines whose clocks differ, or one that was set back, leave facts that were recorded after now.
    """
    return max(now, fact.recorded_at)
