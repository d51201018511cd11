"""Spans of requests, statements and background tasks, by OpenTelemetry's tracer."""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, TypeVar

import structlog
from django.conf import settings
from django.db.backends.utils import CursorWrapper
from django.dispatch import Signal
from django.http import HttpRequest, HttpResponse
from django_q.signals import post_execute_in_worker, pre_enqueue, pre_execute
from opentelemetry import context, propagate, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from nousweb.database.base import DatabaseWrapper
from nousweb.lib import prepared_statements
from nousweb.lib.prepared_statements import PreparedCursor
from nousweb.lib.recorded_metrics import METHODS
from nousweb.lib.tracing import NOTHING, Kind, Value, configured_tracer, span, tracer_set
from nousweb.lib.tracing import Span as AnySpan
from nousweb.middleware.request import Middleware

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


NOT_TRACED = ("/static/", "/healthz", "/readyz", "/metrics", "/favicon.ico")
"""Probes and files: frequent, and of no interest."""


class TraceMiddleware(Middleware):
    """Starts the span of a request, or continues the trace of the client. The span names the route but not the address,
    which may contain keys of memory, search words and invitations."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        tracer = configured_tracer()
        if not isinstance(tracer, OtelTracer) or request.path.startswith(NOT_TRACED):
            return self.get_response(request)
        method = request.method if request.method in METHODS else "_OTHER"
        about = {"http.request.method": method or "_OTHER", "url.scheme": request.scheme or "http"}
        served = tracer.begun(about["http.request.method"], SpanKind.SERVER, request.headers, about)
        trace_id, span_id = ids_of(served)
        if not trace_id:
            with CurrentSpan(served):
                return self.get_response(request)
        with CurrentSpan(served), structlog.contextvars.bound_contextvars(trace_id=trace_id, span_id=span_id):
            response = self.get_response(request)
            _answered(served, request, response)
        response["traceresponse"] = f"00-{trace_id}-{span_id}-01"
        return response


def _answered(served: Span, request: HttpRequest, response: HttpResponse) -> None:
    if request.resolver_match is not None:
        route = f"/{request.resolver_match.route}"
        served.update_name(f"{request.method} {route}")
        served.set_attribute("http.route", route)
    served.set_attribute("http.response.status_code", response.status_code)
    served.set_attribute("nous.request_id", getattr(request, "request_id", ""))
    if response.status_code >= 500:
        served.set_attribute("error.type", str(response.status_code))
        served.set_status(Status(StatusCode.ERROR))


CARRIER = "traceparent"
"""The key of a task under which it carries its trace; a worker without telemetry ignores it."""
MAX_CHARACTERS = 4_000
LITERALS = re.compile(
    r"""("[^"]*") | E'(?:[^'\\]|''|\\.)*(?:'|$) | '(?:[^']|'')*(?:'|$) | \$\$.*?(?:\$\$|$)""",
    re.VERBOSE | re.DOTALL,
)
OPERATION = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|SAVEPOINT|RELEASE|ROLLBACK|SET|CREATE|DROP|ALTER)\b")
TABLE = re.compile(r'\b(?:FROM|INTO|UPDATE)\s+"?([a-z_]\w*)"?')

_running: dict[str, tuple["CurrentSpan", Span]] = {}


def spans_start(tracer: OtelTracer) -> None:
    """Create spans in this process: for each statement, and for each task, which carries the trace that queued it.

    Connections and prepared statements stay as they are.
    """
    tracer_set(tracer)
    prepared_statements.cursor_type = _PreparedCursor
    DatabaseWrapper.cursor_type = _Cursor
    for signal, receiver in SIGNALS:
        signal.connect(receiver, dispatch_uid=__name__)


def spans_stop() -> None:
    """Create no more spans."""
    tracer_set(None)
    prepared_statements.cursor_type = PreparedCursor
    DatabaseWrapper.cursor_type = CursorWrapper
    for signal, _ in SIGNALS:
        signal.disconnect(dispatch_uid=__name__)


class _PreparedCursor(PreparedCursor):
    __slots__ = ()

    def execute(self, statement: str, values: Mapping[str, Any]) -> None:
        with _span(statement):
            super().execute(statement, values)


class _Cursor(CursorWrapper):
    def _execute(self, sql: Any, params: Any, *ignored: Any) -> Any:
        with _span(sql):
            return super()._execute(sql, params, *ignored)  # type: ignore[misc]

    def _executemany(self, sql: Any, param_list: Any, *ignored: Any) -> Any:
        with _span(sql):
            return super()._executemany(sql, param_list, *ignored)  # type: ignore[misc]


def _span(statement: Any) -> AbstractContextManager[AnySpan]:
    summary, text = described(statement[:MAX_CHARACTERS]) if isinstance(statement, str) else ("SQL", "")
    database = str(settings.DATABASES["default"]["NAME"])
    about = {"db.system.name": "postgresql", "db.namespace": database, "db.query.summary": summary}
    return span(summary, {**about, "db.query.text": text} if text else about, kind="client")


@lru_cache(maxsize=1_024)
def described(statement: str) -> tuple[str, str]:
    """A summary of a statement (operation and table), and its text with question marks for quoted parts."""
    text = LITERALS.sub(lambda found: found[1] or "?", statement)
    operation, table = OPERATION.search(text), TABLE.search(text)
    words = [operation[1] if operation else text.split(None, 1)[0] if text.strip() else "SQL"]
    if table:
        words.append(table[1])
    return " ".join(words)[:100], text


def _queued(*, task: dict[str, Any], **signal: Any) -> None:
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    if carrier:
        task[CARRIER] = carrier


def _begun(*, task: dict[str, Any], **signal: Any) -> None:
    tracer = configured_tracer()
    if not isinstance(tracer, OtelTracer):
        return
    name = str(task.get("func", ""))[:200]
    about = {
        "messaging.system": "django_q",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": str(task.get("id", "")),
        "nous.task": name,
    }
    within = tracer.begun(f"process {name}", SpanKind.CONSUMER, task.pop(CARRIER, {}), about)
    current = CurrentSpan(within)
    current.__enter__()
    trace_id, span_id = ids_of(within)
    if trace_id:
        structlog.contextvars.bind_contextvars(trace_id=trace_id, span_id=span_id)
    _running[str(task.get("id"))] = current, within


def _ended(*, task: dict[str, Any], **signal: Any) -> None:
    running = _running.pop(str(task.get("id")), None)
    if running is None:
        return
    current, within = running
    structlog.contextvars.unbind_contextvars("trace_id", "span_id")
    if not task.get("success"):
        # The error message of the task may quote memory.
        within.set_status(Status(StatusCode.ERROR))
        within.set_attribute("error.type", "_OTHER")
    current.__exit__(None, None, None)


SIGNALS: tuple[tuple[Signal, Callable[..., None]], ...] = (
    (pre_enqueue, _queued),
    (pre_execute, _begun),
    (post_execute_in_worker, _ended),
)
