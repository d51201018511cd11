"""Problem documents for programs (RFC 9457), and the addresses of pages for people."""

from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import Resolver404, resolve
from django.utils.http import url_has_allowed_host_and_scheme

from nousweb.lib.errors import DomainError, TooMany, Unavailable

PROGRAM_PATHS = ("/api/", "/oauth/token", "/oauth/revoke", "/oauth/register")


def for_programs(request: HttpRequest) -> bool:
    """Whether the client is a program, which reads problem documents, and not a browser, which shows pages."""
    return request.path == "/mcp" or request.path.startswith(PROGRAM_PATHS)


def problem(request: HttpRequest, status: int, code: str, title: str, detail: str, **extra: Any) -> HttpResponse:
    """A problem document; `extra` members come beside the standard ones and cannot replace them."""
    body = {
        **extra,
        "type": "about:blank",
        "title": title,
        "status": status,
        "code": code,
        "detail": detail,
        "request_id": getattr(request, "request_id", ""),
    }
    response = JsonResponse(body, status=status, content_type="application/problem+json")
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


def domain_problem(request: HttpRequest, error: DomainError) -> HttpResponse:
    """A refusal of a service as a problem document, with the members that it carries."""
    standard = {"request", "status", "code", "title", "detail"}
    extra = {key: value for key, value in error.extra.items() if value not in ("", None) and key not in standard}
    response = problem(request, error.status, error.code, error.title, error.detail, **extra)
    if isinstance(error, TooMany | Unavailable):
        response["Retry-After"] = str(error.retry_after)
    return response


def problem_of_status(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """`response` as a problem document, for refusals that never reach the API: no such route, a wrong method."""
    title, code, detail = {
        404: ("Not found", "not_found", "There is nothing here."),
        405: ("Method not allowed", "method_not_allowed", f"Use {response.get('Allow', 'another method')}."),
    }[response.status_code]
    shown = problem(request, response.status_code, code, title, detail)
    if "Allow" in response:
        shown["Allow"] = response["Allow"]
    return shown


def page_above(path: str) -> str:
    """The nearest address above `path` that something answers, as "/review/" of "/review/decide/"."""
    parts = path.strip("/").split("/")
    while parts.pop() and parts:
        above = "/" + "/".join(parts) + "/"
        try:
            resolve(above)
        except Resolver404:
            continue
        return above
    return "/"


def page_sending(request: HttpRequest) -> str:
    """The page on which a form stood, as its browser says; the address it was sent to where that is not known."""
    sender = request.headers.get("HX-Current-URL") or request.headers.get("Referer") or ""
    if not url_has_allowed_host_and_scheme(sender, allowed_hosts={request.get_host()}):
        return request.get_full_path()
    parts = urlsplit(sender)
    if not parts.path.startswith("/"):
        return request.get_full_path()
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
