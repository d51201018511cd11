"""Counts and times requests for Prometheus and OpenTelemetry."""

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from nousweb.lib.recorded_metrics import observe_request


class RequestMetricsMiddleware:
    """Counts and times requests by route, never by path, so that the number of series stays bounded."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = self.get_response(request)
        route = request.resolver_match.route if request.resolver_match else "unmatched"
        observe_request(request.method or "", route, response.status_code, time.perf_counter() - started)
        return response
