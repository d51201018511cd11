"""A refusal as application/problem+json (RFC 9457)."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

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
