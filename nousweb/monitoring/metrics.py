"""Prometheus metrics: requests as they are answered, and gauges read from the database at each scrape.

The counters of all web processes are added up through files in PROMETHEUS_MULTIPROC_DIR, which `serve` sets.
"""

import hmac
import ipaddress
import os
from collections.abc import Callable, Iterator

import structlog
from django.apps import apps
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import Error, transaction
from django.db.models import Count, Min, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

log = structlog.get_logger(__name__)

_process = CollectorRegistry()
_requests = Counter("nous_http_requests", "Requests answered", ["method", "route", "status"], registry=_process)
_latency = Histogram(
    "nous_http_request_seconds",
    "Time to answer a request",
    ["method", "route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    registry=_process,
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def observe_request(method: str, route: str, status: int, seconds: float) -> None:
    """Count an answered request.

    `route` is the URL *pattern*, empty when none matched: a label for each address would let anybody
    fill the memory, and so would a made-up method.
    """
    method = method if method in METHODS else "OTHER"
    route = route or "(none)"
    _requests.labels(method, route, str(status)).inc()
    _latency.labels(method, route).observe(seconds)


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Everything that can be scraped, for whoever has NOUS_METRICS_TOKEN; a client on this machine without it gets the
    figures of the web server, and none of what agents have: agents run on this machine too."""
    if not (trusted := _has_token(request)) and not _is_local(request):
        return HttpResponse("Metrics are for local clients or the bearer of NOUS_METRICS_TOKEN.\n", status=403)
    registry = CollectorRegistry()
    if trusted:
        registry.register(DatabaseGauges())
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        MultiProcessCollector(registry)
        body = generate_latest(registry)
    else:
        body = generate_latest(_process) + generate_latest(registry)
    return HttpResponse(body, content_type=CONTENT_TYPE_LATEST)


def _has_token(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if not settings.METRICS_TOKEN or scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(token.strip().encode(), settings.METRICS_TOKEN.encode())


def _is_local(request: HttpRequest) -> bool:
    if settings.METRICS_TOKEN and "Authorization" in request.headers:
        # Whoever shows a token is judged by that alone.
        return False
    # Behind a proxy on this machine every client looks local.
    if settings.TRUST_PROXY or "X-Forwarded-For" in request.headers or "Forwarded" in request.headers:
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


class DatabaseGauges:
    """Reads the state of the domain. A table that cannot be read leaves its own gauge out, and no other."""

    def describe(self) -> list[Metric]:
        """Nothing in advance: registering must not query."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield each gauge that could be read."""
        for read in (_agents, _pending_proposals, _facts, _context_runs):
            yield from _guarded(read)


def _guarded(read: Callable[[], list[Metric]]) -> list[Metric]:
    try:
        with transaction.atomic():
            return read()
    except (Error, LookupError) as error:
        log.warning("metric_unreadable", metric=read.__name__.lstrip("_"), error=str(error))
        return []


def _rows(app: str, model: str) -> "QuerySet[Model]":
    """All rows of a model, found by name: this module is below the apps and must not import them."""
    return apps.get_model(app, model)._default_manager.all()


def _agents() -> list[Metric]:
    return [GaugeMetricFamily("nous_agents", "Agents", value=_rows("identity", "Agent").count())]


def _pending_proposals() -> list[Metric]:
    pending = _rows("identity", "ChangeProposal").filter(status="pending")
    found = pending.aggregate(count=Count("pk"), oldest=Min("created_at"))
    age = (timezone.now() - found["oldest"]).total_seconds() if found["oldest"] else 0.0
    return [
        GaugeMetricFamily("nous_proposals_pending", "Proposals that wait for a person", value=found["count"]),
        GaugeMetricFamily("nous_proposals_pending_oldest_seconds", "Age of the oldest of them", value=age),
    ]


def _facts() -> list[Metric]:
    gauge = GaugeMetricFamily("nous_facts", "Facts by state", labels=["state"])
    counts = dict(_rows("memory", "Fact").values_list("active").annotate(Count("pk")).order_by())
    gauge.add_metric(["active"], counts.get(True, 0))
    gauge.add_metric(["retired"], counts.get(False, 0))
    return [gauge]


def _context_runs() -> list[Metric]:
    return [GaugeMetricFamily("nous_context_runs", "Kept context runs", value=_rows("context", "ContextRun").count())]
