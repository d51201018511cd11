"""Check whether a collector accepts data."""

from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricsData

TIMEOUT_SECONDS = 2


def endpoint_answers(signal: str) -> tuple[bool, str]:
    """Whether the endpoint of a signal takes an empty message, and the endpoint without what may be a secret in it.

    It is sent as everything is, with the headers and certificates of the OTEL_ variables; the exporter logs why not.
    """
    exporter: Any
    if signal == "traces":
        exporter = OTLPSpanExporter(timeout=TIMEOUT_SECONDS)
        result = exporter.export([])
    else:
        exporter = OTLPMetricExporter(timeout=TIMEOUT_SECONDS)
        result = exporter.export(MetricsData([]))
    exporter.shutdown()
    parts = urlsplit(exporter._endpoint)
    return result.name == "SUCCESS", f"{parts.scheme}://{parts.hostname}:{parts.port or ''}".rstrip(":") + parts.path
