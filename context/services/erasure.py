"""Erasing what was shown to agents."""

from collections.abc import Mapping

from context.models import ContextPin, ContextRun, MemoryUsage
from memory.services.erasure import Erasure, quoting_keys


def context_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete the logged contexts that showed an erased fact, and its pin. Those of an erased agent go with it."""
    if erasure.of_agent:
        return {}
    quoting_ids = quoting_keys(ContextRun, erasure)
    ContextRun.objects.filter(pk__in=quoting_ids).delete()
    ids = [str(fact_id) for fact_id in erasure.fact_ids]
    MemoryUsage.objects.filter(agent=erasure.agent, item_type="fact", item_id__in=ids).delete()
    pins, _ = ContextPin.objects.filter(agent=erasure.agent, item_type="fact", item_id__in=ids).delete()
    return {"contextrun": len(quoting_ids), "contextpin": pins}
