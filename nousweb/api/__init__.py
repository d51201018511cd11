"""The API: one object with its routers, its error handlers and its refusal of unknown parameters."""

import functools
import json
from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.db import Error
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import RawPostDataException, UnreadablePostError
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError, ValidationErrorContext
from ninja.openapi.docs import Swagger
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from context.api import router as context_router
from context.api.recall import router as recall_router
from context.api.settings import router as settings_router
from context.expectations.api import router as expectation_router
from identity.api import router as identity_router
from identity.api.changes import router as change_router
from identity.api.webhooks import router as webhook_router
from memory.api import router as memory_router
from nousweb.access.api_authentication import PersonAuth, TokenAuth, authenticated_caller
from nousweb.database.outages import outage_of
from nousweb.lib import DomainError
from nousweb.lib.problem_documents import domain_problem, problem

logger = structlog.get_logger(__name__)

NO_FIELDS = ("body", "payload", "query", "path")
"""Parts of a place that name where a value was sent, not which one."""


_NOT_JSON = (415, "unsupported_media_type", "Not JSON", "Send the body as application/json.")
_UNREADABLE = (400, "bad_request", "Request refused", "The request cannot be read as it was sent.")
REFUSED: dict[type[Exception], tuple[int, str, str, str]] = {
    AuthenticationError: (
        401,
        "not_authenticated",
        "Not authenticated",
        "Send an agent's token as “Authorization: Bearer …”, or sign in.",
    ),
    # The check of a session's CSRF token reads forms, also those that no parser can read.
    MultiPartParserError: _NOT_JSON,
    RawPostDataException: _NOT_JSON,
    UnreadablePostError: _UNREADABLE,
    SuspiciousOperation: _UNREADABLE,
    BadRequest: _UNREADABLE,
    Http404: (404, "not_found", "Not found", "There is nothing here."),
}
"""Errors that are always answered alike: status, code, title and sentence of the problem document."""


def _errors_handled(api: NinjaAPI) -> None:

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

    def refused(request: HttpRequest, error: Any) -> HttpResponse:
        return problem(request, *next(refusal for kind, refusal in REFUSED.items() if isinstance(error, kind)))

    for kind in REFUSED:
        api.add_exception_handler(kind, refused)

    @api.exception_handler(RequestDataTooBig)
    def too_large(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0
        return problem(request, 413, "too_large", "Too large", f"A request body holds at most {limit:,} bytes.")

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


AGENT = "agent"
"""People may name the agent in every call, also where the id in the address already does."""

Run = Callable[..., HttpResponseBase]


def unknown_parameters_refused(run: Run) -> Run:
    """A decorator for the `run` of every operation. Callers are authenticated before their parameters are judged."""
    operation: Operation = run.__self__  # type: ignore[attr-defined]
    known = {AGENT}
    for model in operation.models:
        if model.__ninja_param_source__ == "query":
            known.update(model.__ninja_flatten_map__)

    @functools.wraps(run)
    def checked(request: HttpRequest, **values: Any) -> HttpResponseBase:
        unknown = [name for name in request.GET if name not in known]
        if not unknown:
            return run(request, **values)
        errors = [{"loc": ("query", name[:60]), "msg": "Extra inputs are not permitted"} for name in unknown]
        return operation._run_checks(request) or operation.api.on_exception(request, ValidationError(errors))

    return checked


class Api(NinjaAPI):
    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        """Names the fields of a body beside one that it does not have."""
        error = super().validation_error_from_error_contexts(error_contexts)
        bodies = {name: field.annotation for one in error_contexts for name, field in one.model.model_fields.items()}
        for item in error.errors:
            body = bodies.get(item["loc"][1]) if item["type"] == "extra_forbidden" and len(item["loc"]) == 3 else None
            if fields := getattr(body, "model_fields", None):
                item["msg"] += f". The fields are {', '.join(fields)}"
        return error

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """The document, which says of every operation that it refuses with problem+json; not to be changed.

        It is made once for each prefix: that takes half a second, and whoever asks for it needs no token.
        """
        return self._document(self.get_root_path(path_params or {}) if path_prefix is None else path_prefix)

    @functools.lru_cache(maxsize=4)  # noqa: B019  (there is one API, for as long as the process lives)
    def _document(self, path_prefix: str) -> OpenAPISchema:
        document = super().get_openapi_schema(path_prefix=path_prefix)
        problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        for operations in document["paths"].values():
            for operation in operations.values():
                responses = {str(status): response for status, response in operation["responses"].items()}
                for status, response in responses.items():
                    if int(status) >= 400:
                        declared = response.get("content", {}).values()
                        response["content"] = dict.fromkeys(problem, *declared) if declared else problem
                responses["default"] = {"description": "Any other refusal", "content": problem}
                operation["responses"] = responses
        return document


class ApiPage(Swagger):
    """Swagger's page with the files of its package, which is no installed app."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        self.settings["url"] = self.get_openapi_url(api, kwargs)
        # People who are signed in try it with their session.
        shown = {"swagger_settings": json.dumps(self.settings), "api": api, "add_csrf": True}
        return render(request, self.template, shown)


api = Api(
    title="Nous Web",
    version="1",
    description="What agents remember, believe and are told.",
    auth=[authenticated_caller, TokenAuth(), PersonAuth()],
    # Sorted by address: the operations of a noun stand together.
    docs=ApiPage({"operationsSorter": "alpha", "defaultModelsExpandDepth": -1}),
    docs_decorator=require_safe,
)
_errors_handled(api)
api.add_decorator(unknown_parameters_refused, mode="view")
# Addresses are looked for in this order: what is asked for most comes first.
for router in (
    context_router,
    recall_router,
    identity_router,
    change_router,
    webhook_router,
    memory_router,
    settings_router,
    expectation_router,
):
    api.add_router("", router)
