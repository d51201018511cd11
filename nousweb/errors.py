"""Every error of the API as application/problem+json."""

from typing import Any

import structlog
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from nousweb.lib.errors import DomainError

logger = structlog.get_logger(__name__)


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


def register(api: NinjaAPI) -> None:
    """Give `api` its error handlers."""

    @api.exception_handler(DomainError)
    def domain_error(request: HttpRequest, error: DomainError) -> HttpResponse:
        extra = {key: value for key, value in error.extra.items() if value not in ("", None)}
        return problem(request, error.status, error.code, error.title, error.detail, **extra)

    @api.exception_handler(ValidationError)
    def validation_error(request: HttpRequest, error: ValidationError) -> HttpResponse:
        errors = [
            {
                "field": ".".join(str(part) for part in item["loc"] if part not in ("body", "payload", "query")),
                "message": item["msg"],
            }
            for item in error.errors
        ]
        detail = "; ".join(f"{e['field']}: {e['message']}" if e["field"] else e["message"] for e in errors[:5])
        return problem(request, 422, "invalid", "Invalid request", detail[:1000], errors=errors[:50])

    @api.exception_handler(AuthenticationError)
    def authentication_error(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
        return problem(
            request, 401, "not_authenticated", "Not authenticated",
            "Send an agent's token as “Authorization: Bearer …”, or sign in.",
        )  # fmt: skip

    @api.exception_handler(Http404)
    def not_found(request: HttpRequest, error: Http404) -> HttpResponse:
        return problem(request, 404, "not_found", "Not found", "There is nothing here.")

    @api.exception_handler(HttpError)
    def http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
        code = {400: "bad_request", 403: "not_allowed", 413: "too_large"}.get(error.status_code, "error")
        detail = str(error)
        if error.status_code == 400:
            # The parser's own words may quote the body back.
            detail = "The request body is not valid JSON in UTF-8."
        return problem(request, error.status_code, code, "Request refused", detail)

    @api.exception_handler(Exception)
    def unexpected(request: HttpRequest, error: Exception) -> HttpResponse:
        logger.exception("api.unexpected_error", path=request.path)
        return problem(
            request, 500, "internal_error", "Internal error",
            "Something went wrong on our side; the request id finds it in the log.",
        )  # fmt: skip
