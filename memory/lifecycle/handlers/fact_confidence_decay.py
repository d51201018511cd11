"""Lower the confidence of stale facts, which nobody has confirmed for long; some categories do not age."""

from typing import Any

from django.db.models import Exists, OuterRef, Q

from identity.models import Persona
from identity.principal import Principal
from memory.lifecycle.handler import Handler
from memory.lifecycle.job_thresholds import NEVER_STALE, STALE_AFTER, STALE_CONFIDENCE_FLOOR, STALE_CONFIDENCE_STEP
from memory.models import Fact, FactChange, Job
from memory.services.facts import fact_edit
from nousweb.lib import clock

BY = Principal.of_system("lifecycle")


def _apply(job: Job, prepared: None) -> dict[str, Any]:
    # Each persona has a bound of its own, or many facts of one would keep the other's from fading.
    return {"lowered": sum(_lower(job, persona) for persona in Persona.values)}


def _lower(job: Job, persona: str) -> int:
    horizon = clock.now() - STALE_AFTER
    lowered = FactChange.objects.filter(
        agent=OuterRef("agent"), fact=OuterRef("pk"), at__gt=horizon, evidence__has_key="staleness"
    )
    stale = (
        Fact.objects.current()
        .filter(
            Q(last_confirmed_at__lt=horizon) | Q(last_confirmed_at__isnull=True),
            ~Exists(lowered),
            agent=job.agent,
            persona=persona,
            recorded_at__lt=horizon,
            confidence__gt=STALE_CONFIDENCE_FLOOR,
        )
        .exclude(category__in=NEVER_STALE)
        .select_related("agent")
        .order_by("pk")[:500]
    )
    count = 0
    for fact in stale:
        fact_edit(
            fact=fact,
            by=BY,
            confidence=round(max(fact.confidence - STALE_CONFIDENCE_STEP, STALE_CONFIDENCE_FLOOR), 4),
            reason=f"Not confirmed for {STALE_AFTER.days} days.",
            evidence={"staleness": True},
        )
        count += 1
    return count


STALENESS = Handler(apply=_apply, activity="dream")
