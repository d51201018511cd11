"""Raise the importance of facts that are confirmed again and again. Source: seed "Agentic Memory System", dream cycle.

Days are counted, not confirmations: an agent that repeats what it was shown a moment ago says nothing new.
"""

from typing import Any

from django.db.models import Count, Q
from django.db.models.functions import TruncDate

from identity.models import Persona
from identity.principal import Principal
from memory.lifecycle.handler import Handler
from memory.lifecycle.job_thresholds import CORE_CONFIRMATIONS, CORE_IMPORTANCE
from memory.models import Fact, FactChange, Job
from memory.services.facts import fact_edit

BY = Principal.of_system("lifecycle")


def _apply(job: Job, prepared: None) -> dict[str, Any]:
    # Each persona has a bound of its own, or many facts of one would keep the other's from rising.
    return {"raised": sum(_raise(job, persona) for persona in Persona.values)}


def _raise(job: Job, persona: str) -> int:
    confirmed = Count(TruncDate("changes__at"), distinct=True, filter=Q(changes__action=FactChange.Action.CONFIRMED))
    often = (
        Fact.objects.current()
        .filter(agent=job.agent, persona=persona, importance__lt=CORE_IMPORTANCE)
        .filter(confirmation_count__gte=CORE_CONFIRMATIONS)
        .annotate(days=confirmed)
        .filter(days__gte=CORE_CONFIRMATIONS)
        .order_by("pk")
    )
    keys = list(often.values_list("pk", flat=True)[:500])
    for fact in Fact.objects.select_related("agent").filter(pk__in=keys).order_by("pk"):
        fact_edit(
            fact=fact,
            by=BY,
            importance=CORE_IMPORTANCE,
            reason=f"Confirmed on {CORE_CONFIRMATIONS} days or more: a core fact.",
        )
    return len(keys)


CORE_FACTS = Handler(apply=_apply, activity="dream")
