"""What surrounds every request: its id, its figures, who asks, and refusals shown as pages."""

import re
import time
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect, render
from django.utils.functional import SimpleLazyObject

from identity.principal import Principal, acting
from nousweb.database.outages import outage_of, outage_page
from nousweb.lib.errors import DomainError, Unavailable
from nousweb.lib.measures import observe_request
from nousweb.lib.page_addresses import page_above, page_sending
from nousweb.lib.problem_documents import for_programs, problem, problem_of_status

Handler = Callable[[HttpRequest], HttpResponse]

_REQUEST_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")
OPEN_PATHS = (
    "/login/",
    "/static/",
    "/healthz",
    "/readyz",
    "/metrics",
    "/api/",
    "/mcp",
    "/admin/",
    "/favicon.ico",
    "/invitation/",
    "/.well-known/",
    "/oauth/token",
    "/oauth/revoke",
    "/oauth/register",
)
"""Paths that the console's login does not guard: each is open, or guards itself."""


class RequestIdMiddleware:
    """Gives each request an id (the caller's own when it is well formed), in logs, audit and answers."""

    def __init__(self, get_response: Handler) -> None:
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


class MetricsMiddleware:
    """Counts and times requests by route, never by path, so that the number of series stays bounded."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = self.get_response(request)
        route = request.resolver_match.route if request.resolver_match else "unmatched"
        observe_request(request.method or "", route, response.status_code, time.perf_counter() - started)
        return response


class ConsoleLoginMiddleware:
    """Everything of the console is for people who signed in, unless its path is declared open."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(OPEN_PATHS) or request.user.is_authenticated:
            return self.get_response(request)
        # After the login comes the page with the form, which is not the address that the form goes to.
        safe = request.method in ("GET", "HEAD") and not request.headers.get("HX-Request")
        wanted = request.get_full_path() if safe else page_sending(request)
        login: HttpResponse = redirect_to_login(wanted)
        if request.setup_due:  # type: ignore[attr-defined]
            login = redirect(settings.SECOND_FACTOR_URL)
        if request.headers.get("HX-Request"):
            # A fragment must not be replaced by a login form.
            return HttpResponse(status=401, headers={"HX-Redirect": login["Location"]})
        return login


class PrincipalMiddleware:
    """Sets `request.principal`, the signed-in person as services know them, as whoever acts while it is answered."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        def person() -> Principal:
            if not request.user.is_authenticated:
                # Such as a login that stores its password again, in a stronger form.
                return Principal("system", "visitor", "visitor", request.request_id)  # type: ignore[attr-defined]
            return Principal.of_user(request.user, request_id=request.request_id)  # type: ignore[attr-defined]

        principal: Any = SimpleLazyObject(person)
        request.principal = principal  # type: ignore[attr-defined]
        with acting(principal):
            return self.get_response(request)


class DomainErrorMiddleware:
    """A refusal that no view has dealt with becomes a page that says why, for programs a problem document."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 405 and request.method in ("GET", "HEAD") and _from_address_bar(request):
            # What only takes forms has no page: reloaded, or opened after a login, it leads to the one above it.
            query = request.META.get("QUERY_STRING", "")
            return redirect(page_above(request.path) + (f"?{query}" if query else ""))
        if response.status_code not in (404, 405) or not for_programs(request):
            return response
        page = response.get("Content-Type", "").startswith("text/html")
        return problem_of_status(request, response) if page else response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if for_programs(request):
            return None
        outage = exception if isinstance(exception, Unavailable) else outage_of(exception)
        if outage is not None:
            return outage_page(request, outage)
        if not isinstance(exception, DomainError):
            return None
        if request.headers.get("HX-Request"):
            # It goes into a part of a page.
            said = {"kind": "warn", "word": f"{exception.title}.", "text": exception.detail}
            return render(request, "components/notice.html", said, status=exception.status)
        return render(
            request,
            "refused.html",
            {"title": exception.title, "detail": exception.detail, "above": page_above(request.path)},
            status=exception.status,
        )


def _from_address_bar(request: HttpRequest) -> bool:
    """Whether a browser asks for a page of the console, by an address that was typed, reloaded or followed."""
    return "text/html" in request.headers.get("Accept", "") and not request.path.startswith(OPEN_PATHS)
