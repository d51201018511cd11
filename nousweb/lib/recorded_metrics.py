"""Counters and histograms that are recorded as events happen, declared once for Prometheus and OpenTelemetry."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class Measure:
    """A metric. `name` is its name in Prometheus, `otel` in OpenTelemetry (empty if another metric has its count).

    `unit` is a UCUM unit. A counter counts, a histogram sorts values into `buckets`. `labels` are named as in
    Prometheus, `attributes` are their names in OpenTelemetry. `otel_only` labels would multiply Prometheus's series of
    buckets.
    """

    name: str
    otel: str
    kind: Literal["counter", "histogram"]
    description: str
    unit: str
    buckets: Sequence[float] = ()
    labels: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    otel_only: tuple[str, ...] = ()


_HTTP = ("http.request.method", "http.route", "http.response.status_code")

HTTP_REQUESTS = Measure(
    "nous_http_requests", "", "counter", "Requests answered", "{request}", labels=("method", "route", "status")
)  # fmt: skip
HTTP_SECONDS = Measure(
    "nous_http_request_seconds", "http.server.request.duration", "histogram", "Time to answer a request", "s", SECONDS,
    labels=("method", "route", "status"), attributes=_HTTP, otel_only=("status",),
)  # fmt: skip
CONTEXT_SECONDS = Measure(
    "nous_context_seconds", "nous.context.duration", "histogram", "Time to assemble a logged prompt", "s", SECONDS
)
CONTEXT_TOKENS = Measure(
    "nous_context_tokens", "nous.context.tokens", "histogram", "Estimated tokens of logged prompts", "{token}",
    (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000),
)  # fmt: skip
CONTEXT_MEMORIES = Measure(
    "nous_context_memories", "nous.context.memories", "histogram", "Memories shown in logged prompts", "{memory}",
    (0, 1, 2, 5, 10, 20, 50, 100, 200),
)  # fmt: skip
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MEASURES = (HTTP_REQUESTS, HTTP_SECONDS, CONTEXT_SECONDS, CONTEXT_TOKENS, CONTEXT_MEMORIES)

Recorder = Callable[[Measure, float, Sequence[str]], None]
_recorders: list[Recorder] = []


def recorder_add(recorder: Recorder) -> None:
    """Pass each value that is measured in this process to `recorder` from now on."""
    _recorders.append(recorder)


def recorder_remove(recorder: Recorder) -> None:
    """Stop passing values to `recorder`."""
    _recorders.remove(recorder)


def record(measure: Measure, value: float, *labels: str) -> None:
    """Record a value; `labels` are in the order of the measure's labels."""
    for recorder in _recorders:
        recorder(measure, value, labels)


def observe_request(method: str, route: str, status: int, seconds: float) -> None:
    """Count a request.

    `route` is the URL *pattern*, empty if none matched: a label for each address would let any client fill the memory,
    and so would invented methods.
    """
    labels = (method if method in METHODS else "OTHER", route or "(none)", str(status))
    record(HTTP_REQUESTS, 1, *labels)
    record(HTTP_SECONDS, seconds, *labels)
