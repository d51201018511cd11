"""Reject malformed requests before anything else reads them."""

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError

from nousweb.lib.problem_documents import for_programs, problem

MAX_LENGTH_DIGITS = 18
MAX_QUERY_BYTES = 8_150
"""As long as the first line of a request may be for gunicorn; some searches pay for every word of it."""
MULTIPART = "multipart/form-data"
FORMS = (MULTIPART, "application/x-www-form-urlencoded")
UTF_8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})

Refusal = tuple[int, str, str]
"""A status, the code of the problem, and a sentence."""

UNREADABLE: Refusal = (400, "bad_request", "The request cannot be read as it was sent.")


class MalformedRequestMiddleware:
    """Refuses requests whose address, length, encoding or form cannot be read, for programs as problem documents.

    Forms are read here since a form that breaks its parser would do so again in the page that says so.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        of_api = for_programs(request)
        refusal = (
            self._query(request) or self._length(request) or self._encoding(request) or self._form(request, of_api)
        )
        response = self._refuse(request, refusal) if refusal else self.get_response(request)
        # Django refuses by a page, among others, a host that it does not serve.
        if of_api and response.status_code == 400 and response.get("Content-Type", "").startswith("text/html"):
            return self._refuse(request, UNREADABLE)
        return response

    @staticmethod
    def _query(request: HttpRequest) -> Refusal | None:
        if len(request.META.get("QUERY_STRING", "")) <= MAX_QUERY_BYTES:
            return None
        return 414, "too_large", f"What follows the “?” of an address holds at most {MAX_QUERY_BYTES:,} bytes."

    @staticmethod
    def _length(request: HttpRequest) -> Refusal | None:
        length = request.META.get("CONTENT_LENGTH") or "0"
        if length.isascii() and length.isdigit() and len(length) <= MAX_LENGTH_DIGITS:
            return None
        return 400, "bad_request", "Content-Length is no number of bytes."

    @staticmethod
    def _encoding(request: HttpRequest) -> Refusal | None:
        charset = str((request.content_params or {}).get("charset", "utf-8")).lower()
        if request.content_type not in FORMS or charset in UTF_8:
            return None
        return 415, "unsupported_media_type", "Send text in UTF-8."

    @staticmethod
    def _form(request: HttpRequest, of_api: bool) -> Refusal | None:
        if request.method != "POST" or request.content_type not in FORMS:
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

    @staticmethod
    def _refuse(request: HttpRequest, refusal: Refusal) -> HttpResponse:
        status, code, detail = refusal
        if for_programs(request):
            return problem(request, status, code, "Request refused", detail)
        return HttpResponse(detail, status=status, content_type="text/plain; charset=utf-8")
