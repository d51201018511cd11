"""Compressed pages."""

from django.http import HttpRequest, HttpResponseBase
from django.middleware.gzip import GZipMiddleware

from nousweb.lib.problem_documents import for_programs


class PageCompressionMiddleware(GZipMiddleware):
    """Compresses what people read, for browsers that can.

    Compressed sizes tell of what a page holds beside what an attacker puts into its address (BREACH). Django masks the
    CSRF token again in every answer and pads each answer by a random number of bytes, here up to 100, and the session's
    cookie comes with no request that another site's page makes. Answers to programs stay as they are: they mostly cross
    a short way, and compressing would take longer than it saves.
    """

    max_random_bytes = 100

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if for_programs(request):
            return response
        return super().process_response(request, response)
