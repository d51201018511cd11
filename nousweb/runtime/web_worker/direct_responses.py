"""Responses without the application: to health probes and to rejected requests."""

import json
from uuid import uuid4

REFUSALS = {
    400: ("bad_request", "Bad Request", "The length of the body has to be said once, as a plain number."),
    408: ("too_slow", "Request Timeout", "The request did not arrive in time."),
    411: ("length_required", "Length Required", "Send the body with a Content-Length."),
    413: ("too_large", "Too large", "A request body holds at most {max_body_bytes:,} bytes."),
    429: ("too_many_requests", "Too Many Requests", "This caller sends more than it may; wait, then go on."),
    431: ("head_too_large", "Request Header Fields Too Large", "The headers of the request are too long."),
    503: ("busy", "Service Unavailable", "The server is too busy for this request."),
}
"""Code, reason and sentence by status."""


def refusal(status: int, *, max_body_bytes: int = 0, retry_after: int = 0) -> bytes:
    """The complete error response, a problem document. The connection is closed after it."""
    code, reason, detail = REFUSALS[status]
    request_id = uuid4().hex
    body = json.dumps(
        {
            "type": "about:blank",
            "title": reason,
            "status": status,
            "code": code,
            "detail": detail.format(max_body_bytes=max_body_bytes),
            "request_id": request_id,
        }
    ).encode()
    headers = {"X-Request-Id": request_id}
    if retry_after:
        headers["Retry-After"] = str(retry_after)
    return _answer(f"{status} {reason}", "application/problem+json", body, headers, keep=False)


def health(*, keep: bool, with_body: bool) -> bytes:
    """The response of /healthz: the process is up."""
    return _answer("200 OK", "application/json", b'{"status": "ok"}', {}, keep=keep, with_body=with_body)


def _answer(
    status: str, content_type: str, body: bytes, headers: dict[str, str], *, keep: bool, with_body: bool = True
) -> bytes:
    named = {
        "Content-Type": content_type,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "keep-alive" if keep else "close",
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + (body if with_body else b"")
