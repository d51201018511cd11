"""Parse the parts of a request's head that are needed before a thread gets it: its length, caller, method and path.

gunicorn's strict parser reads the request itself again; a head that cannot be understood here has no body and is
rejected there.
"""

import re
from dataclasses import dataclass

from nousweb.runtime.web_worker.request_limits import Limits

END = b"\r\n\r\n"
HEALTH = re.compile(rb"(GET|HEAD) /healthz(?:\?[^ ]*)? HTTP/1\.[01]\r\n")
_LENGTHS = re.compile(rb"\r\n[ \t]*content-length[^\r\n]*", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(0|[1-9]\d{0,14})[ \t]*", re.IGNORECASE)
_CODING = re.compile(rb"\r\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)
_AUTHORIZATION = re.compile(rb"\r\nauthorization:[ \t]*([^\r\n]*)", re.IGNORECASE)
_FORWARDED = re.compile(rb"\r\nx-forwarded-for:[ \t]*([^\r\n]*)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close[ \t]*(?=\r\n)", re.IGNORECASE)


class RequestRejected(Exception):
    """The request gets a response with this status without the application, and its connection is closed."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Head:
    """The head of a request. `text` are its bytes, without an Expect header, which is handled already."""

    text: bytes
    method: str
    path: str
    length: int
    expects: bool
    authorization: bytes
    forwarded: str
    """The last address of X-Forwarded-For: the one that the nearest proxy has written."""
    closes: bool

    @property
    def is_health(self) -> bool:
        return HEALTH.match(self.text) is not None


def head_of(received: bytearray, limits: Limits, max_body_bytes: int) -> Head | None:
    """The head at the beginning of `received`, or None while it is incomplete. Raises RequestRejected."""
    end = received.find(END, 0, limits.head_bytes)
    if end < 0:
        if len(received) >= limits.head_bytes:
            raise RequestRejected(431)
        return None
    text = bytes(received[: end + len(END)])
    # Most heads have none of the rarer fields, and searching for a word is quicker than for its line in any case.
    folded = text.lower()
    if b"transfer-encoding" in folded and _CODING.search(text):
        # A body of unknown length is not supported.
        raise RequestRejected(411)
    length = _length_of(text)
    if length > max_body_bytes:
        raise RequestRejected(413)
    method, _, rest = text.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    authorization = _AUTHORIZATION.search(text)
    forwarded = _FORWARDED.findall(text) if b"x-forwarded-for" in folded else ()
    expects = b"100-continue" in folded and _EXPECT.search(text) is not None
    if expects:
        # The event loop requests the body before a thread gets the request, so the thread must not request it again.
        text = _EXPECT.sub(b"", text)
        received[: end + len(END)] = text
    return Head(
        text=text,
        method=method,
        path=rest.partition(" ")[0],
        length=length,
        expects=expects,
        authorization=authorization[1] if authorization else b"",
        forwarded=forwarded[-1].decode("latin-1").rpartition(",")[2].strip() if forwarded else "",
        closes=(b"close" in folded and _CLOSE.search(text) is not None) or b" HTTP/1.0\r\n" in text,
    )


def _length_of(text: bytes) -> int:
    """The length of the body in bytes.

    Raises RequestRejected for a length that another parser could read differently (repeated, with leading zeros, or
    with more digits than any body has): one of them would take a part of the body for the next request.
    """
    named = _LENGTHS.findall(text)
    if not named:
        return 0
    found = _LENGTH.fullmatch(named[0])
    if len(named) > 1 or found is None:
        raise RequestRejected(400)
    return int(found[1])
