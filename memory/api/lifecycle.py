"""The API of the jobs of the memory lifecycle."""

from typing import Any

from django.db.models import Count
from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from memory.api.common import AnyJobStatus, caller, list_page
from memory.models import Job
from memory.selectors.filters import JobFilter
from nousweb.lib.constrained_types import AgentSlug, NextCursor, PageCursor, PageLimit
from nousweb.lib.schemas import REFUSALS, Derived

router = Router()


class RunOut(
    Derived,
    of=Job,
    fields="id handler persona subject_type subject_id status attempts queued_at started_at finished_at"
    " next_attempt_at duration_ms tokens result error",
):
    id: str = Field(alias="key", description="Event that it reacts to, once")


class LifecycleOut(Schema):
    counts: dict[str, int] = Field(description="Jobs by status")
    waiting: int = Field(description="Pending reviews")
    items: list[RunOut]
    next: NextCursor


@router.get("/lifecycle", response={200: LifecycleOut, **REFUSALS}, summary="Runs of the lifecycle")
def lifecycle_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    status: AnyJobStatus = "",
    handler: str = Query("", max_length=50),
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Number of jobs in each state, and the jobs, latest first."""
    _, by, memory = caller(request, agent, "memory.view_job")
    counts = dict.fromkeys(Job.Status.values, 0)
    counts |= dict(memory.jobs.order_by().values_list("status").annotate(Count("pk")))
    runs = JobFilter.narrow(memory.jobs, status=status, handler=handler)
    page = list_page(runs, moment="queued_at", limit=limit, cursor=cursor, key="key")
    return page | {"counts": counts, "waiting": memory.reviews.asked_of(by).pending().count()}
