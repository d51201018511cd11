"""Prometheus metrics: requests as they are answered, and gauges read from the database at each scrape.

The counters of all web processes are added up through files in PROMETHEUS_MULTIPROC_DIR, which `serve` sets.
"""

import hmac
import ipaddress
import os
from collections.abc import Iterator, Sequence

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from nousweb.lib.recorded_metrics import MEASURES, Measure, recorder_add
from nousweb.monitoring.gauges import gauges_read

WEB_SERVER = "nous_http_"
"""Prefixes of the web server's figures; the others are about agents."""


def _made(measure: Measure) -> Counter | Histogram:
    labels = [label for label in measure.labels if label not in measure.otel_only]
    if measure.kind == "counter":
        return Counter(measure.name, measure.description, labels, registry=_process)
    return Histogram(measure.name, measure.description, labels, buckets=measure.buckets, registry=_process)


_process = CollectorRegistry()
_made_of = {measure: _made(measure) for measure in MEASURES}


def _recorded(measure: Measure, value: float, labels: Sequence[str]) -> None:
    kept = [text for name, text in zip(measure.labels, labels, strict=True) if name not in measure.otel_only]
    made = _made_of[measure].labels(*kept) if kept else _made_of[measure]
    if isinstance(made, Counter):
        made.inc(value)
    else:
        made.observe(value)


recorder_add(_recorded)


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """All metrics, for callers with NOUS_METRICS_TOKEN. A client on this machine without it gets only the figures of
    the web server, not those about agents: agents run on this machine too."""
    if not (trusted := _has_token(request)) and not _is_local(request):
        return HttpResponse("Metrics are for local clients or the bearer of NOUS_METRICS_TOKEN.\n", status=403)
    registry = CollectorRegistry()
    registry.register(_Measured(trusted))
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class _Measured(Collector):
    """The figures of all web processes and the state of the domain; for callers that are not `trusted`, the figures of
    the web server alone."""

    def __init__(self, trusted: bool) -> None:
        self._trusted = trusted

    def describe(self) -> list[Metric]:
        """Nothing in advance: registering must neither read files nor query."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield each figure, and each gauge that could be read."""
        source = MultiProcessCollector(None) if os.environ.get("PROMETHEUS_MULTIPROC_DIR") else _process
        yield from (one for one in source.collect() if self._trusted or one.name.startswith(WEB_SERVER))
        for gauge, values in gauges_read() if self._trusted else ():
            family = GaugeMetricFamily(gauge.name, gauge.description, labels=[gauge.label] if gauge.label else [])
            for label, value in values.items():
                family.add_metric([label] if gauge.label else [], value)
            yield family


def _has_token(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if not settings.METRICS_TOKEN or scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(token.strip().encode(), settings.METRICS_TOKEN.encode())


def _is_local(request: HttpRequest) -> bool:
    if settings.METRICS_TOKEN and "Authorization" in request.headers:
        # A caller with a token is judged by that alone.
        return False
    # Behind a proxy on this machine every client looks local.
    if settings.TRUST_PROXY or "X-Forwarded-For" in request.headers or "Forwarded" in request.headers:
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False
