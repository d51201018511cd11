"""Outcomes of similar tasks, by the fingerprint of their context."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Avg, Count, Max, Q

from context.models import ContextRun
from identity.models import Agent
from identity.principal import Principal
from memory.policy.consent import wilson_interval

SHOWN = 100
FEW = 10
"""Below so many reported outcomes a rate is shown as uncertain."""


@dataclass(frozen=True, slots=True)
class FingerprintRow:
    """Runs of one fingerprint. `low` and `high` bound the success rate, 0 to 1, at 95 %."""

    id: str
    runs: int
    success: int
    failure: int
    tokens: float
    last: datetime
    about: Mapping[str, Any]

    @property
    def reported(self) -> int:
        return self.success + self.failure

    @property
    def rate(self) -> float | None:
        return self.success / self.reported if self.reported else None

    @property
    def percent(self) -> int | None:
        return None if self.rate is None else round(100 * self.rate)

    @property
    def low(self) -> int:
        return round(100 * wilson_interval(self.success, self.reported)[0])

    @property
    def high(self) -> int:
        return round(100 * wilson_interval(self.success, self.reported)[1])

    @property
    def width(self) -> int:
        return self.high - self.low

    @property
    def few(self) -> bool:
        return self.reported < FEW


def fingerprints(agent: Agent, by: Principal, since: datetime | None = None) -> list[FingerprintRow]:
    """The fingerprints with most runs, at most SHOWN, in two queries. The runs' log ends with its retention."""
    runs = ContextRun.objects.visible_to(by).filter(agent=agent).exclude(fingerprint_id="")
    if since:
        runs = runs.filter(created_at__gte=since)
    counted = list(
        runs.order_by()
        .values("fingerprint_id")
        .annotate(
            count=Count("pk"),
            success=Count("pk", filter=Q(outcome="success")),
            failure=Count("pk", filter=Q(outcome="failure")),
            mean_tokens=Avg("tokens"),
            last=Max("created_at"),
        )
        .order_by("-count", "fingerprint_id")[:SHOWN]
    )
    ids = [row["fingerprint_id"] for row in counted]
    latest = (
        runs.filter(fingerprint_id__in=ids)
        .order_by("fingerprint_id", "-created_at")
        .distinct("fingerprint_id")
        .values_list("fingerprint_id", "fingerprint")
    )
    about = dict(latest)
    return [
        FingerprintRow(
            row["fingerprint_id"],
            row["count"],
            row["success"],
            row["failure"],
            row["mean_tokens"],
            row["last"],
            about.get(row["fingerprint_id"], {}),
        )
        for row in counted
    ]
