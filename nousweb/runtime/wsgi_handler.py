"""The handler that passes requests to the middleware, and the reading of requests."""

from typing import Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.utils.http import parse_header_parameters

from nousweb.database.statement_timeouts import work_usual


class Request(WSGIRequest):
    """A request whose addresses and text are UTF-8, whatever the header of its body.

    Django decodes addresses by that header too, and accepts encodings that are not text encodings.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        stated = meta.get("CONTENT_TYPE", "")
        try:
            self.content_type, self.content_params = parse_header_parameters(stated)
        except Exception:
            # Nothing could answer: there is no request yet.
            self.content_type, self.content_params = stated.partition(";")[0].strip().lower(), {}


class Handler(WSGIHandler):
    request_class = Request

    def __init__(self) -> None:
        # Threads that requests start are no command, which may take as long as it wants.
        work_usual("form")
        super().__init__()
