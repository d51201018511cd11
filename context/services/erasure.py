"""Erasing what was shown to agents."""

from collections.abc import Mapping

from django.db import connection

from context.models import ContextRun
from memory.services.erasure import Erasure, quoting_sql


def context_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete the logged contexts that showed an erased fact. Those of an erased agent go with it."""
    if erasure.of_agent:
        return {}
    table = connection.ops.quote_name(ContextRun._meta.db_table)
    runs = ContextRun.objects.filter(agent=erasure.agent)
    quoting = runs.extra(where=[quoting_sql(table)], params=[erasure.needles])  # noqa: S610  (a name of our own)
    quoting_ids = list(quoting.values_list("pk", flat=True))
    ContextRun.objects.filter(pk__in=quoting_ids).delete()
    return {"contextrun": len(quoting_ids)}
