"""The span of a background task, in the trace of the request that queued it."""

from typing import Any

import structlog
from django_q.signals import post_execute_in_worker, pre_enqueue, pre_execute
from opentelemetry import propagate
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from nousweb.monitoring.telemetry.tracer import CurrentSpan, OtelTracer, ids_of

CARRIER = "traceparent"
"""The key of a task under which it carries its trace; a worker without telemetry ignores it."""

_tracer: OtelTracer | None = None
_running: dict[str, tuple[CurrentSpan, Span]] = {}


def tasks_trace(tracer: OtelTracer) -> None:
    """Add the trace to each task that this process queues, and create a span for each task that it runs."""
    global _tracer
    _tracer = tracer
    pre_enqueue.connect(_queued, dispatch_uid="nousweb.monitoring.telemetry")
    pre_execute.connect(_begun, dispatch_uid="nousweb.monitoring.telemetry")
    post_execute_in_worker.connect(_ended, dispatch_uid="nousweb.monitoring.telemetry")


def tasks_untrace() -> None:
    """Stop tracing tasks."""
    global _tracer
    _tracer = None
    for signal in (pre_enqueue, pre_execute, post_execute_in_worker):
        signal.disconnect(dispatch_uid="nousweb.monitoring.telemetry")


def _queued(*, task: dict[str, Any], **signal: Any) -> None:
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    if carrier:
        task[CARRIER] = carrier


def _begun(*, task: dict[str, Any], **signal: Any) -> None:
    if _tracer is None:
        return
    name = str(task.get("func", ""))[:200]
    about = {
        "messaging.system": "django_q",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": str(task.get("id", "")),
        "nous.task": name,
    }
    span = _tracer.begun(f"process {name}", SpanKind.CONSUMER, task.pop(CARRIER, {}), about)
    current = CurrentSpan(span)
    current.__enter__()
    trace_id, span_id = ids_of(span)
    if trace_id:
        structlog.contextvars.bind_contextvars(trace_id=trace_id, span_id=span_id)
    _running[str(task.get("id"))] = current, span


def _ended(*, task: dict[str, Any], **signal: Any) -> None:
    running = _running.pop(str(task.get("id")), None)
    if running is None:
        return
    current, span = running
    structlog.contextvars.unbind_contextvars("trace_id", "span_id")
    if not task.get("success"):
        # The error message of the task may quote memory.
        span.set_status(Status(StatusCode.ERROR))
        span.set_attribute("error.type", "_OTHER")
    current.__exit__(None, None, None)
