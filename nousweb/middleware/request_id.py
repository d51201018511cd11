"""Gives each request an id, by which its log lines, audit records and answer can be found together."""

import re
import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

from nousweb.lib.problem_documents import for_programs, problem

_REQUEST_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")


class RequestIdMiddleware:
    """Gives each request an id (the caller's own when it is well formed), in logs, audit and answers."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-Id", "")
        request_id = given if _REQUEST_ID.match(given) else uuid.uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            if "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
                response = self._refuse_nul(request)
            else:
                response = self.get_response(request)
        response["X-Request-Id"] = request_id
        return response

    @staticmethod
    def _refuse_nul(request: HttpRequest) -> HttpResponse:
        detail = "A NUL character has no place in an address."
        if for_programs(request):
            return problem(request, 400, "bad_request", "Bad request", detail)
        return HttpResponseBadRequest(detail)
