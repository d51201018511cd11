"""The application as a WSGI server sees it."""

import contextlib
import os
from typing import Any

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.utils.http import parse_header_parameters

from nousweb.database.statement_timeouts import work_usual
from nousweb.middleware.static_files import client_archive_write


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


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")

# Files are served from where they are, so nothing is collected here; WhiteNoise warns when it is missing.
settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
django.setup(set_prefix=False)
# A full disk is no reason not to serve.
with contextlib.suppress(OSError):
    client_archive_write()
application = Handler()
