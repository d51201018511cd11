"""Errors of the client, each with the server's message."""

from typing import Any


class NousError(Exception):
    """Base of every error of this client."""


class Unreachable(NousError):
    """No answer came: the server is away, or the time was up."""


class Blocked(NousError):
    """A censor forbids to go on; `reason` says why, `censors` which."""

    def __init__(self, reason: str, censors: list[dict[str, Any]]) -> None:
        self.reason = " ".join(filter(None, [reason, *(str(one.get("reason", "")) for one in censors)]))
        self.censors = censors
        super().__init__(self.reason or "A censor blocks this.")


class Refused(NousError):
    """The server refused the call and changed nothing.

    `status` is that of HTTP, `code` the problem's, `errors` the fields with a message each, `request_id` what finds the
    call in the server's log.
    """

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        self.code = str(problem.get("code", ""))
        self.detail = str(problem.get("detail", "")) or f"The server answered {status}."
        self.errors: list[dict[str, str]] = problem.get("errors", [])
        self.request_id = str(problem.get("request_id", ""))
        super().__init__(f"{self.detail} ({status} {self.code})".rstrip())


class NotAuthenticated(Refused):
    """The token is missing, wrong, expired or revoked."""


class NotAllowed(Refused):
    """The token lacks a scope, or only people may do this."""


class NotFound(Refused):
    """There is no such thing, or it is another agent's."""


class Conflict(Refused):
    """It cannot be done in the present state."""


class Invalid(Refused):
    """A value cannot be accepted."""


class TooManyRequests(Refused):
    """Called too often, after all tries."""


class Unavailable(Refused):
    """The server could not serve it now, after all tries."""


class ServerError(Refused):
    """A fault of the server."""


BY_STATUS: dict[int, type[Refused]] = {
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: Conflict,
    422: Invalid,
    429: TooManyRequests,
    503: Unavailable,
}


def refusal(status: int, problem: dict[str, Any]) -> Refused:
    """The error for an answer of `status` with the problem document `problem`."""
    return BY_STATUS.get(status, ServerError if status >= 500 else Refused)(status, problem)
