"""The middleware of every request; `MIDDLEWARE` in nousweb/settings.py has the order."""

import re
import time
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import redirect, render
from django.utils.functional import SimpleLazyObject

from identity.principal import Principal, acting
from nousweb.database.outages import outage_of, outage_page
from nousweb.database.replica import PEOPLE, agent_key, replica_allowed, replica_take, replica_used, write_note
from nousweb.database.statement_timeouts import work, work_of
from nousweb.lib import DomainError, Unavailable
from nousweb.lib.problem_documents import for_programs, page_above, page_sending, problem, problem_of_status
from nousweb.lib.recorded_metrics import observe_request

Handler = Callable[[HttpRequest], HttpResponse]


class Middleware:
    """A part of the processing of requests, around `get_response`."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)


PUBLIC_PATHS = (
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
"""Beginnings of paths that the console's log-in does not guard: each is public, or checks its callers itself."""


_REQUEST_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")


class RequestIdMiddleware(Middleware):
    """Gives each request an id (the caller's own when it is well formed), in logs, audit and answers."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-Id", "")
        request_id = given if _REQUEST_ID.match(given) else uuid.uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            if "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
                response = _refused(request, 400, "bad_request", "A NUL character has no place in an address.")
            else:
                response = self.get_response(request)
        response["X-Request-Id"] = request_id
        return response


def _refused(request: HttpRequest, status: int, code: str, detail: str) -> HttpResponse:
    if for_programs(request):
        return problem(request, status, code, "Request refused", detail)
    return HttpResponse(detail, status=status, content_type="text/plain; charset=utf-8")


class RequestMetricsMiddleware(Middleware):
    """Counts and times requests by route, never by path, so that the number of series stays bounded."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = self.get_response(request)
        route = request.resolver_match.route if request.resolver_match else "unmatched"
        observe_request(request.method or "", route, response.status_code, time.perf_counter() - started)
        return response


class StatementTimeoutMiddleware(Middleware):
    """Before everything that may ask the database."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with work(work_of(request.method or "", request.path)):
            return self.get_response(request)


class ResponseHeadersMiddleware(Middleware):
    """Limits what a page may load to the server's own files, and forbids caching of responses that do not set it
    themselves, as static files do: neither a shared proxy nor the back button after signing out shows earlier pages."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers.setdefault("Content-Security-Policy", settings.CONTENT_SECURITY_POLICY)
        return response


MAX_LENGTH_DIGITS = 18
MAX_QUERY_BYTES = 8_150
"""As long as the first line of a request may be for gunicorn; some searches pay for every word of it."""
MULTIPART = "multipart/form-data"
FORMS = (MULTIPART, "application/x-www-form-urlencoded")
UTF_8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})

Refusal = tuple[int, str, str]
"""A status, the code of the problem, and a sentence."""

UNREADABLE: Refusal = (400, "bad_request", "The request cannot be read as it was sent.")


class MalformedRequestMiddleware(Middleware):
    """Refuses requests whose address, length, encoding or form cannot be read, for programs as problem documents.

    Forms are read here since a form that breaks its parser would do so again in the page that says so.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        of_api = for_programs(request)
        refusal = self._refusal(request, of_api)
        response = _refused(request, *refusal) if refusal else self.get_response(request)
        # Django refuses by a page, among others, a host that it does not serve.
        if of_api and response.status_code == 400 and response.get("Content-Type", "").startswith("text/html"):
            return _refused(request, *UNREADABLE)
        return response

    @staticmethod
    def _refusal(request: HttpRequest, of_api: bool) -> Refusal | None:
        if len(request.META.get("QUERY_STRING", "")) > MAX_QUERY_BYTES:
            return 414, "too_large", f"What follows the “?” of an address holds at most {MAX_QUERY_BYTES:,} bytes."
        length = request.META.get("CONTENT_LENGTH") or "0"
        if not (length.isascii() and length.isdigit() and len(length) <= MAX_LENGTH_DIGITS):
            return 400, "bad_request", "Content-Length is no number of bytes."
        if request.content_type not in FORMS:
            return None
        if str((request.content_params or {}).get("charset", "utf-8")).lower() not in UTF_8:
            return 415, "unsupported_media_type", "Send text in UTF-8."
        if request.method != "POST":
            return None
        if of_api and request.content_type == MULTIPART:
            return 415, "unsupported_media_type", "Send the body as application/json."
        try:
            _ = request.POST
        except RequestDataTooBig:
            limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0
            return 413, "too_large", f"A request body holds at most {limit:,} bytes."
        except SuspiciousOperation:
            # Too many fields: what is JSON in spite of its header has none, and is read as such.
            return None if of_api else UNREADABLE
        except (MultiPartParserError, UnreadablePostError, BadRequest, ValueError):
            return UNREADABLE
        return None


class PageCompressionMiddleware(GZipMiddleware):
    """Compresses pages, for browsers that accept it.

    Compressed sizes can reveal secrets of a page that also contains text from its address (BREACH). Django masks the
    CSRF token again in each response and pads each response by a random number of bytes, here up to 100, and the
    session's cookie is not sent with requests from other sites. Responses to programs stay as they are: they mostly
    travel a short way, and compressing would take longer than it saves.
    """

    max_random_bytes = 100

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return response if for_programs(request) else super().process_response(request, response)


class PrincipalMiddleware(Middleware):
    """Sets `request.principal`, the signed-in person, as the acting principal of the request."""

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


class ConsoleLoginMiddleware(Middleware):
    """Everything of the console is for people who signed in, unless its path is one of PUBLIC_PATHS."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(PUBLIC_PATHS) or request.user.is_authenticated:
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


class DomainErrorMiddleware(Middleware):
    """A refusal that no view has dealt with becomes a page that says why, for programs a problem document."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if (
            response.status_code == 405
            and request.method in ("GET", "HEAD")
            and "text/html" in request.headers.get("Accept", "")
            and not request.path.startswith(PUBLIC_PATHS)
        ):
            # An address that only takes forms has no page: on reload, or after a login, it redirects to its parent.
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
            said = {
                "kind": "warn",
                "word": f"{exception.title}.",
                "text": exception.detail,
                "url": page_sending(request),
            }
            return render(request, "components/notice.html", said, status=exception.status)
        return render(
            request,
            "refused.html",
            {
                "title": exception.title,
                "detail": exception.detail,
                "above": page_above(request.path),
                "sender": page_sending(request) if request.method == "POST" else "",
            },
            status=exception.status,
        )


ELSEWHERE = ("/api/changes", "/login", "/logout", "/account", "/admin", "/oauth", "/healthz", "/readyz", "/metrics",
             "/static/", "/mcp", "/.well-known/", "/invitation/")  # fmt: skip
"""Paths that are always read from the primary: log-ins, probes, and the feed, whose reading writes."""
HEADER = "Nous-Read-From"


class ReplicaReadsMiddleware(Middleware):
    """The innermost middleware: only reads of views use the replica. If the replica fails meanwhile or the view writes,
    the request is repeated on the primary."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            response = self.get_response(request)
            _note(request)
            return response
        if request.path.startswith(ELSEWHERE):
            return self.get_response(request)
        with replica_allowed():
            if "Authorization" not in request.headers and request.user.is_authenticated:
                replica_take([PEOPLE])
            response = self.get_response(request)
            used = replica_used()
        if used and response.status_code >= 500:
            response = self.get_response(request)
            _note(request)
            used = False
        if used:
            response[HEADER] = "replica"
        return response


def _note(request: HttpRequest) -> None:
    principal = getattr(request, "principal", None)
    if principal is None:
        return
    if principal.token is not None:
        write_note(agent_key(principal.token.agent_id))
    elif principal.is_person:
        write_note(PEOPLE)
