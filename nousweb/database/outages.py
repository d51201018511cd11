"""Database errors that mean "not now" instead of a bug of ours, and the responses to them."""

import logging
import sys
from dataclasses import dataclass

import structlog
from django.db import Error, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views import defaults

from nousweb.database.disk_space import database_disk_low
from nousweb.lib import Unavailable
from nousweb.lib.problem_documents import domain_problem, for_programs

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Outage:
    """The response to a caller: a code of the problem document, one sentence, and seconds to wait."""

    code: str
    detail: str
    retry_after: int


AWAY = Outage("database_away", "The database cannot be reached at the moment.", 5)
DISK_FULL = Outage("disk_full", "The database's disk is full. Changes are possible once space is freed.", 30)
READ_ONLY = "25006"
OUTAGES = {
    "55P03": Outage("locked", "Something else holds a record that this request needs.", 1),
    "57014": Outage("timed_out", "The database took longer for this request than it may.", 5),
    "25P04": Outage("timed_out", "The database took longer for this request than it may.", 5),
    "40P01": Outage("contended", "Other requests change the same records at the same time.", 1),
    "40001": Outage("contended", "Other requests change the same records at the same time.", 1),
    READ_ONLY: Outage("read_only", "The database accepts no changes at the moment.", 30),
    "53100": DISK_FULL,
    "53200": Outage("exhausted", "The database is out of memory.", 10),
    "53300": Outage("exhausted", "The database has no connection left.", 2),
    "58030": Outage("disk_full", "The database cannot read or write its disk.", 60),
}
"""By SQLSTATE."""
CLASSES = {"08": AWAY, "53": Outage("exhausted", "The database is out of a resource.", 10), "57": AWAY}
"""By the first two characters, for codes that are not listed. The rest of class 57 means a server that stops."""


def outage_of(error: BaseException) -> Unavailable | None:
    """The refusal with which `error` is answered, or None when it is no outage but an error of the program's."""
    outage = _outage(error) if isinstance(error, Error) else None
    if outage is None:
        return None
    # The driver's message may name hosts and users: it is only logged.
    log.warning("database_outage", code=outage.code, error=str(error))
    return Unavailable(outage.detail, retry_after=outage.retry_after, code=outage.code)


def _outage(error: Error) -> Outage | None:
    state = getattr(error.__cause__, "sqlstate", None)
    if state == READ_ONLY and database_disk_low():
        # `serve` has the embedded database refuse changes before the last byte is taken.
        return DISK_FULL
    if state:
        return OUTAGES.get(state) or CLASSES.get(state[:2])
    # Errors without a state are the driver's own: it found no server, or lost it.
    return AWAY if isinstance(error, (OperationalError, InterfaceError)) else None


def outage_page(request: HttpRequest, outage: Unavailable) -> HttpResponse:
    """A page, or for htmx a part of one, that is made without the database and so without the console's frame."""
    if request.headers.get("HX-Request"):
        said = {"kind": "warn", "word": f"{outage.title}.", "text": outage.detail}
        body = render_to_string("components/notice.html", said)
    else:
        shown = {"outage": outage, "request_id": getattr(request, "request_id", ""), "method": request.method}
        body = render_to_string("503.html", shown)
    response = HttpResponse(body, status=outage.status, headers={"Retry-After": str(outage.retry_after)})
    response["Cache-Control"] = "no-store"
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler of uncaught exceptions, such as a lost database while a session is looked up."""
    error = sys.exc_info()[1]
    outage = outage_of(error) if error else None
    if outage is None:
        return defaults.server_error(request)
    return domain_problem(request, outage) if for_programs(request) else outage_page(request, outage)


class OutagesLogged(logging.Filter):
    """Keeps Django from writing a traceback for each request that met an outage: `outage_of` has written a line."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "status_code", None) == Unavailable.status:
            return False
        error = record.exc_info[1] if record.exc_info else None
        return not (isinstance(error, Error) and _outage(error))
