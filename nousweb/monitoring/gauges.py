"""The state of the domain as numbers, read from the database: declared once for Prometheus and for OpenTelemetry."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog
from django.apps import apps
from django.db import Error, transaction
from django.db.models import Count, Min, Model, QuerySet
from django.utils import timezone

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Gauge:
    """`name` is Prometheus's; that of OpenTelemetry, `otel`, has dots, and no unit. `unit` is one of UCUM."""

    name: str
    description: str
    unit: str
    label: str = ""

    @property
    def otel(self) -> str:
        return self.name.removesuffix("_seconds").replace("_", ".")


Values = dict[str, float]
"""By label; by "" where a gauge has none."""

AGENTS = Gauge("nous_agents", "Agents", "{agent}")
PROPOSALS = Gauge("nous_proposals_pending", "Pending proposals", "{proposal}")
PROPOSALS_AGE = Gauge("nous_proposals_pending_oldest_seconds", "Age of the oldest of them", "s")
FACTS = Gauge("nous_facts", "Facts by state", "{fact}", label="state")
RUNS = Gauge("nous_context_runs", "Kept context runs", "{run}")
REVIEWS = Gauge("nous_reviews_pending", "Pending reviews of memories", "{review}", label="kind")
QUEUE = Gauge("nous_queue_jobs", "Jobs that are due and not yet taken by a worker", "{job}")
QUEUE_AGE = Gauge("nous_queue_oldest_seconds", "How long the oldest of them has been due", "s")
GAUGES = (AGENTS, PROPOSALS, PROPOSALS_AGE, FACTS, RUNS, REVIEWS, QUEUE, QUEUE_AGE)


def gauges_read() -> Iterator[tuple[Gauge, Values]]:
    """Every gauge that can be read. A table that cannot be read leaves its own gauges out, and no other."""
    for read in (_agents, _pending_proposals, _facts, _context_runs, _reviews, _queue):
        yield from _guarded(read)


def _guarded(read: Callable[[], dict[Gauge, Values]]) -> list[tuple[Gauge, Values]]:
    try:
        with transaction.atomic():
            return list(read().items())
    except (Error, LookupError) as error:
        log.warning("metric_unreadable", metric=read.__name__.lstrip("_"), error=str(error))
        return []


def _rows(app: str, model: str) -> "QuerySet[Model]":
    """All rows of a model, found by name: this module is below the apps and must not import them."""
    return apps.get_model(app, model)._default_manager.all()


def _agents() -> dict[Gauge, Values]:
    return {AGENTS: {"": _rows("identity", "Agent").count()}}


def _pending_proposals() -> dict[Gauge, Values]:
    return _waiting(
        PROPOSALS, PROPOSALS_AGE, _rows("identity", "ChangeProposal").filter(status="pending"), "created_at"
    )


def _facts() -> dict[Gauge, Values]:
    counts = dict(_rows("memory", "Fact").values_list("active").annotate(Count("pk")).order_by())
    return {FACTS: {"active": counts.get(True, 0), "retired": counts.get(False, 0)}}


def _context_runs() -> dict[Gauge, Values]:
    return {RUNS: {"": _rows("context", "ContextRun").count()}}


def _reviews() -> dict[Gauge, Values]:
    counted = (
        _rows("memory", "MemoryReview").filter(status="pending").values_list("kind").annotate(Count("pk")).order_by()
    )
    return {REVIEWS: dict(counted)}


def _queue() -> dict[Gauge, Values]:
    due = _rows("memory", "Job").filter(status__in=["queued", "failed"], next_attempt_at__lte=timezone.now())
    return _waiting(QUEUE, QUEUE_AGE, due, "next_attempt_at")


def _waiting(length: Gauge, age: Gauge, rows: "QuerySet[Model]", since: str) -> dict[Gauge, Values]:
    """The number of waiting rows, and the waiting time of the oldest."""
    found = rows.aggregate(count=Count("pk"), oldest=Min(since))
    seconds = (timezone.now() - found["oldest"]).total_seconds() if found["oldest"] else 0.0
    return {length: {"": found["count"]}, age: {"": seconds}}
