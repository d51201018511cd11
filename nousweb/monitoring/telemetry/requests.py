"""The span of a request, around its whole processing."""

from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from nousweb.lib.recorded_metrics import METHODS
from nousweb.lib.tracing import configured_tracer
from nousweb.monitoring.telemetry.tracer import CurrentSpan, OtelTracer, ids_of

NOT_TRACED = ("/static/", "/healthz", "/readyz", "/metrics", "/favicon.ico")
"""Probes and files: frequent, and of no interest."""


class TraceMiddleware:
    """Starts the span of a request, or continues the trace of the client. The span names the route but not the address,
    which may contain keys of memory, search words and invitations."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        tracer = configured_tracer()
        if not isinstance(tracer, OtelTracer) or request.path.startswith(NOT_TRACED):
            return self.get_response(request)
        method = request.method if request.method in METHODS else "_OTHER"
        about = {"http.request.method": method or "_OTHER", "url.scheme": request.scheme or "http"}
        span = tracer.begun(about["http.request.method"], SpanKind.SERVER, request.headers, about)
        trace_id, span_id = ids_of(span)
        if not trace_id:
            with CurrentSpan(span):
                return self.get_response(request)
        with CurrentSpan(span), structlog.contextvars.bound_contextvars(trace_id=trace_id, span_id=span_id):
            response = self.get_response(request)
            _answered(span, request, response)
        response["traceresponse"] = f"00-{trace_id}-{span_id}-01"
        return response


def _answered(span: Span, request: HttpRequest, response: HttpResponse) -> None:
    if request.resolver_match is not None:
        route = f"/{request.resolver_match.route}"
        span.update_name(f"{request.method} {route}")
        span.set_attribute("http.route", route)
    span.set_attribute("http.response.status_code", response.status_code)
    span.set_attribute("nous.request_id", getattr(request, "request_id", ""))
    if response.status_code >= 500:
        span.set_attribute("error.type", str(response.status_code))
        span.set_status(Status(StatusCode.ERROR))
