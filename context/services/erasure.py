"""Erasing what was shown to agents."""

from collections.abc import Mapping

from django.db import connection

from context.models import ContextPin, ContextRun, MemoryUsage
from memory.services.erasure import Erasure, quoting_sql


def context_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete the logged contexts that showed an erased fact, and its pin. Those of an erased agent go with it."""
    if erasure.of_agent:
        return {}
    table = connection.ops.quote_name(ContextRun._meta.db_table)
    runs = ContextRun.objects.filter(agent=erasure.agent)
    quoting = runs.extra(where=[quoting_sql(table)], params=[erasure.needles])  # noqa: S610  (a name of our own)
    quoting_ids = list(quoting.order_by("pk").values_list("pk", flat=True))
    ContextRun.objects.filter(pk__in=quoting_ids).delete()
    ids = [str(fact_id) for fact_id in erasure.fact_ids]
    MemoryUsage.objects.filter(agent=erasure.agent, item_type="fact", item_id__in=ids).delete()
    pins, _ = ContextPin.objects.filter(agent=erasure.agent, item_type="fact", item_id__in=ids).delete()
    return {"contextrun": len(quoting_ids), "contextpin": pins}
