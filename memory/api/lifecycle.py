"""What the lifecycle has run, over HTTP."""

from typing import Any, Literal

from django.db.models import Count
from django.http import HttpRequest
from ninja import Query, Router

from memory.api.common import REFUSALS, caller, keyset_page
from memory.models import Job
from memory.schemas.reviews import LifecycleOut

router = Router()


@router.get("/lifecycle", response={200: LifecycleOut, **REFUSALS}, summary="Runs of the lifecycle")
def lifecycle_get(
    request: HttpRequest,
    agent: str = "",
    status: Literal["", "queued", "running", "done", "failed", "dead"] = "",
    handler: str = Query("", max_length=50),
    limit: int = Query(50, ge=1, le=200),
    cursor: str = "",
) -> Any:
    """How many runs there are in each state, and the runs themselves, latest first."""
    _, _, memory = caller(request, agent, "memory.view_job")
    counts = dict.fromkeys(Job.Status.values, 0)
    counts |= dict(memory.jobs.order_by().values_list("status").annotate(Count("pk")))
    runs = memory.jobs
    if status:
        runs = runs.filter(status=status)
    if handler:
        runs = runs.filter(handler=handler)
    page = keyset_page(runs, moment="queued_at", limit=limit, cursor=cursor, key="key")
    return page | {"counts": counts, "waiting": memory.reviews.pending().count()}
