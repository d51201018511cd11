"""Reads of the API and of the console from the replica. Set up where DATABASE_REPLICA_URL names one."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from nousweb.database.replica import PEOPLE, agent_key, replica_allowed, replica_take, replica_used, write_note

Handler = Callable[[HttpRequest], HttpResponse]
ELSEWHERE = ("/api/changes", "/login", "/logout", "/account", "/admin", "/oauth", "/healthz", "/readyz", "/metrics",
             "/static/", "/mcp", "/.well-known/", "/invitation/")  # fmt: skip
"""Paths that are always read from the primary: log-ins, probes, and the feed, whose reading writes."""
HEADER = "Nous-Read-From"


class ReplicaReadsMiddleware:
    """The innermost middleware: only reads of views use the replica. If the replica fails meanwhile or the view writes,
    the request is repeated on the primary."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            response = self.get_response(request)
            _note(request)
            return response
        if request.path.startswith(ELSEWHERE):
            return self.get_response(request)
        with replica_allowed():
            if "Authorization" not in request.headers and request.user.is_authenticated:
                replica_take([PEOPLE])
            response = self.get_response(request)
            used = replica_used()
        if used and response.status_code >= 500:
            response = self.get_response(request)
            _note(request)
            used = False
        if used:
            response[HEADER] = "replica"
        return response


def token_reads(request: HttpRequest, agent_id: int) -> None:
    """Let a token's read go on at the replica: its agent's, once the token was looked up at the primary."""
    if request.method in ("GET", "HEAD"):
        replica_take([agent_key(agent_id), PEOPLE])


def _note(request: HttpRequest) -> None:
    principal = getattr(request, "principal", None)
    if principal is None:
        return
    if principal.token is not None:
        write_note(agent_key(principal.token.agent_id))
    elif principal.is_person:
        write_note(PEOPLE)
