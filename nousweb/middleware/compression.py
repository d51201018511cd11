"""Compress responses."""

from django.http import HttpRequest, HttpResponseBase
from django.middleware.gzip import GZipMiddleware

from nousweb.lib.problem_documents import for_programs


class PageCompressionMiddleware(GZipMiddleware):
    """Compresses pages, for browsers that accept it.

    Compressed sizes can reveal secrets of a page that also contains text from its address (BREACH). Django masks the
    CSRF token again in each response and pads each response by a random number of bytes, here up to 100, and the
    session's cookie is not sent with requests from other sites. Responses to programs stay as they are: they mostly
    travel a short way, and compressing would take longer than it saves.
    """

    max_random_bytes = 100

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if for_programs(request):
            return response
        return super().process_response(request, response)
