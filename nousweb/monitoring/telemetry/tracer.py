"""The tracer of nousweb.lib.tracing on top of OpenTelemetry's."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from nousweb.lib.tracing import NOTHING, Kind, Value
from nousweb.lib.tracing import Span as AnySpan

Result = TypeVar("Result")
KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class OtelTracer:
    """Creates spans only within the span of a request or a task, so that polling creates none."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def begun(self, name: str, kind: SpanKind, carrier: Mapping[str, str], attributes: Mapping[str, Value]) -> Span:
        """Start the first span of a request or task. It continues the trace in `carrier`, if there is one."""
        return self._tracer.start_span(name, propagate.extract(carrier), kind, dict(attributes))

    def span(self, name: str, kind: Kind, attributes: Mapping[str, Value]) -> AbstractContextManager[AnySpan]:
        # Of a span that has ended too: a thread may begin its work after the step that gave it.
        around = trace.get_current_span().get_span_context()
        if not (around.is_valid and around.trace_flags.sampled):
            return NOTHING
        return CurrentSpan(self._tracer.start_span(name, kind=KINDS[kind], attributes=dict(attributes)))

    def carried(self, function: Callable[..., Result]) -> Callable[..., Result]:
        here = context.get_current()

        def elsewhere(*arguments: Any) -> Result:
            token = context.attach(here)
            try:
                return function(*arguments)
            finally:
                context.detach(token)

        return elsewhere

    def trace_id(self) -> str:
        return ids_of(trace.get_current_span())[0]


class CurrentSpan:
    """Context manager: make a span the current one for a block, and end it with the block."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> Span:
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self._span

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> None:
        if error is not None:
            failed(self._span, error)
        context.detach(self._token)
        self._span.end()


def failed(span: Span, error: BaseException) -> None:
    """Mark a span as failed, with the class of `error`. Its message is not recorded, since it may quote memory."""
    span.set_attribute("error.type", type(error.__cause__ or error).__qualname__)
    span.set_status(Status(StatusCode.ERROR))


def ids_of(span: Span) -> tuple[str, str]:
    """Ids of the trace and of the span, as hexadecimal digits; empty if the span is not collected."""
    known = span.get_span_context()
    if not span.is_recording() or not known.is_valid:
        return "", ""
    return trace.format_trace_id(known.trace_id), trace.format_span_id(known.span_id)
