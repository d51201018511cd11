"""Export traces and metrics from separate threads, where the standard OTEL_ variables ask for it: no request waits.

What a collector does not take is kept up to a bound (OTEL_BSP_MAX_QUEUE_SIZE) and then dropped. Each process starts it
after it was forked. Packages of OpenTelemetry are imported only then.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import structlog

from nousweb import __version__

SIGNALS = ("traces", "metrics")
PROTOCOL = "http/protobuf"
PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def signals_wanted(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The SIGNALS to export: those whose exporter is `otlp`, or that have an endpoint and no other exporter. None with
    OTEL_SDK_DISABLED=true."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return frozenset()
    return frozenset(signal for signal in SIGNALS if _wanted(signal, environment))


def signals_exported(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The wanted signals, if nothing stands in the way of them."""
    wanted = signals_wanted(environment)
    return frozenset() if wanted and obstacle(environment) else wanted


def obstacle(environment: Mapping[str, str] = os.environ) -> str:
    """The reason why the signals cannot be exported, in one sentence; empty if they can."""
    for signal in sorted(signals_wanted(environment)):
        protocol = _of_signal("PROTOCOL", signal, environment) or PROTOCOL
        if protocol != PROTOCOL:
            return f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol}: only {PROTOCOL} is spoken here."
    if not all(map(_installed, PACKAGES)):
        return "The packages of OpenTelemetry are not installed: install requirements/otel.lock."
    return ""


def _wanted(signal: str, environment: Mapping[str, str]) -> bool:
    exporters = [name.strip() for name in environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").split(",")]
    return "otlp" in exporters if exporters != [""] else bool(_of_signal("ENDPOINT", signal, environment))


def _of_signal(name: str, signal: str, environment: Mapping[str, str]) -> str:
    own = environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}", "")
    return own.strip() or environment.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


log = structlog.get_logger(__name__)

TIMEOUT_SECONDS = 2
STOP_SECONDS = 2.0
"""Data that have not been sent this long after the end of a process are lost."""
SERVICE = "nous-web"

_stops: list[Callable[[], Any]] = []


def telemetry_start(*, gauges: bool = False) -> None:
    """Start the export that the OTEL_ variables request; `gauges` adds figures that are read from the database.

    Logs the reason if that is impossible: a variable that is meant for all programs of a machine must stop none.
    """
    if problem := obstacle():
        log.warning("telemetry_off", reason=problem)
        return
    signals = signals_exported()
    if not signals or _stops:
        return
    resource = _resource()
    if "traces" in signals:
        _traces_start(resource)
    if "metrics" in signals:
        _metrics_start(resource, gauges)


def telemetry_stop() -> None:
    """Send the rest, for at most STOP_SECONDS, and create no more spans."""
    stops, _stops[:] = list(_stops), []
    threads = [threading.Thread(target=stop, daemon=True) for stop in stops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(STOP_SECONDS)


def _resource() -> Any:
    from opentelemetry.sdk.resources import Resource

    own: dict[str, str | int] = {
        "service.version": __version__,
        "service.instance.id": uuid4().hex,
        "process.pid": os.getpid(),
    }
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not named:
        own["service.name"] = SERVICE
    return Resource.create(own)


def _traces_start(resource: Any) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from nousweb.monitoring.telemetry.spans import OtelTracer, spans_start, spans_stop

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    spans_start(OtelTracer(provider.get_tracer("nousweb", __version__)))

    def stop() -> None:
        spans_stop()
        provider.shutdown()

    _stops.append(stop)


def _metrics_start(resource: Any, gauges: bool) -> None:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    from nousweb.monitoring.telemetry.otel_metrics import gauges_observe, measures_record

    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    provider = MeterProvider(metric_readers=[reader], resource=resource, shutdown_on_exit=False)
    meter = provider.get_meter("nousweb", __version__)
    forget = measures_record(meter)
    if gauges:
        gauges_observe(meter)

    def stop() -> None:
        forget()
        with contextlib.suppress(Exception):
            provider.shutdown(timeout_millis=STOP_SECONDS * 1000)

    _stops.append(stop)


def endpoint_answers(signal: str) -> tuple[bool, str]:
    """Whether the endpoint of a signal takes an empty message, and the endpoint without what may be a secret in it.

    It is sent as everything is, with the headers and certificates of the OTEL_ variables; the exporter logs why not.
    """
    exporter: Any
    if signal == "traces":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter(timeout=TIMEOUT_SECONDS)
        result = exporter.export([])
    else:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics.export import MetricsData

        exporter = OTLPMetricExporter(timeout=TIMEOUT_SECONDS)
        result = exporter.export(MetricsData([]))
    exporter.shutdown()
    parts = urlsplit(exporter._endpoint)
    return result.name == "SUCCESS", f"{parts.scheme}://{parts.hostname}:{parts.port or ''}".rstrip(":") + parts.path
