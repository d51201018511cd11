"""Errors of the domain: raised by services, shown by the API as problem+json and by the console as pages."""

from typing import Any, ClassVar, TypeVar

T = TypeVar("T")


class DomainError(Exception):
    """Base of every refusal that the caller can understand and act on.

    `detail` is one plain sentence; `extra` holds JSON-ready members that the API adds to the problem document.
    """

    status: ClassVar[int] = 400
    code: ClassVar[str] = "bad_request"
    title: ClassVar[str] = "Bad request"

    def __init__(self, detail: str, **extra: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = extra


class NotAllowed(DomainError):
    status = 403
    code = "not_allowed"
    title = "Not allowed"


class NotFound(DomainError):
    status = 404
    code = "not_found"
    title = "Not found"


def existing(row: T | None, refusal: str | Exception) -> T:
    """What was looked up. Raises `refusal` if it is not there, or NotFound with these words."""
    if row is None:
        raise NotFound(refusal) if isinstance(refusal, str) else refusal
    return row


class Conflict(DomainError):
    status = 409
    code = "conflict"
    title = "Conflict with the current state"


class StaleEdit(Conflict):
    """An edit is based on a version that is no longer current."""

    def __init__(self, base_version: int, current_version: int, **extra: Any) -> None:
        detail = f"This edit is based on version {base_version}, but version {current_version} is current."
        super().__init__(detail, **extra)


class Invalid(DomainError):
    """A value cannot be accepted; `field` names it."""

    status = 422
    code = "invalid"
    title = "Invalid value"

    def __init__(self, detail: str, *, field: str = "", **extra: Any) -> None:
        super().__init__(detail, field=field, **extra)
        self.field = field


class TooMany(DomainError):
    """The caller has done so too often; it may again after `retry_after` seconds."""

    status = 429
    code = "too_many_requests"
    title = "Too many requests"

    def __init__(self, detail: str, *, retry_after: int, **extra: Any) -> None:
        super().__init__(detail, **extra)
        self.retry_after = retry_after


class Unavailable(DomainError):
    """Nothing is wrong with the request: it may be sent again after `retry_after` seconds."""

    status = 503
    code = "unavailable"
    title = "Not available now"

    def __init__(self, detail: str, *, retry_after: int = 5, code: str = "", **extra: Any) -> None:
        super().__init__(detail, **extra)
        self.retry_after = retry_after
        if code:
            self.code = code  # type: ignore[misc]
