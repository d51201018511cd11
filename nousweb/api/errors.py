"""The error handlers of the API: each error becomes a problem document."""

import structlog
from django.conf import settings
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.db import Error
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import RawPostDataException, UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from nousweb.database.outages import outage_of
from nousweb.lib.errors import DomainError
from nousweb.lib.problem_documents import domain_problem, problem

logger = structlog.get_logger(__name__)

NO_FIELDS = ("body", "payload", "query", "path")
"""Parts of a place that name where a value was sent, not which one."""


def register(api: NinjaAPI) -> None:
    """Give `api` its error handlers."""

    @api.exception_handler(DomainError)
    def domain_error(request: HttpRequest, error: DomainError) -> HttpResponse:
        return domain_problem(request, error)

    @api.exception_handler(ValidationError)
    def validation_error(request: HttpRequest, error: ValidationError) -> HttpResponse:
        errors = [
            {
                "field": ".".join(str(part) for part in item["loc"] if part not in NO_FIELDS),
                "message": item["msg"].removeprefix("Value error, "),
            }
            for item in error.errors
        ]
        detail = "; ".join(f"{e['field']}: {e['message']}" if e["field"] else e["message"] for e in errors[:5])
        return problem(request, 422, "invalid", "Invalid request", detail[:1000], errors=errors[:50])

    @api.exception_handler(AuthenticationError)
    def authentication_error(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
        return problem(
            request,
            401,
            "not_authenticated",
            "Not authenticated",
            "Send an agent's token as “Authorization: Bearer …”, or sign in.",
        )

    @api.exception_handler(RequestDataTooBig)
    def too_large(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0
        return problem(request, 413, "too_large", "Too large", f"A request body holds at most {limit:,} bytes.")

    # The check of a session's CSRF token reads forms, also those that no parser can read.
    @api.exception_handler(MultiPartParserError)
    @api.exception_handler(RawPostDataException)
    def not_json(request: HttpRequest, error: Exception) -> HttpResponse:
        return problem(request, 415, "unsupported_media_type", "Not JSON", "Send the body as application/json.")

    @api.exception_handler(UnreadablePostError)
    @api.exception_handler(SuspiciousOperation)
    @api.exception_handler(BadRequest)
    def unreadable(request: HttpRequest, error: Exception) -> HttpResponse:
        return problem(request, 400, "bad_request", "Request refused", "The request cannot be read as it was sent.")

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

    @api.exception_handler(Error)
    def database_error(request: HttpRequest, error: Error) -> HttpResponse:
        outage = outage_of(error)
        return unexpected(request, error) if outage is None else domain_problem(request, outage)

    @api.exception_handler(Exception)
    def unexpected(request: HttpRequest, error: Exception) -> HttpResponse:
        logger.exception("api.unexpected_error", path=request.path)
        return problem(
            request,
            500,
            "internal_error",
            "Internal error",
            "Something went wrong on our side; the request id finds it in the log.",
        )
