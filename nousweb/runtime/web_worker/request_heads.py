"""What must be known of a request before a thread has it: where it ends, who sends it, and what it asks for.

The request itself is read by gunicorn's parser, which is strict; a head that cannot be understood here has no body and
is refused there.
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


class Refused(Exception):
    """The request is answered with this status without the application, and its connection is closed."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Head:
    """The head of a request. `text` is how `received` begins, without what has been dealt with already."""

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


def head_of(received: bytearray, limits: Limits, most: int) -> Head | None:
    """The head with which `received` begins, or None while it is not complete.

    `most` is how many bytes a body may have. Raises Refused.
    """
    end = received.find(END, 0, limits.head_bytes)
    if end < 0:
        if len(received) >= limits.head_bytes:
            raise Refused(431)
        return None
    text = bytes(received[: end + len(END)])
    # Most heads have none of the rarer fields, and to look for a word is quicker than for its line in any case.
    folded = text.lower()
    if b"transfer-encoding" in folded and _CODING.search(text):
        # Nothing behind this reads a body of unknown length.
        raise Refused(411)
    length = _length_of(text)
    if length > most:
        raise Refused(413)
    method, _, rest = text.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    authorization = _AUTHORIZATION.search(text)
    forwarded = _FORWARDED.findall(text) if b"x-forwarded-for" in folded else ()
    expects = b"100-continue" in folded and _EXPECT.search(text) is not None
    if expects:
        # The body is asked for before a thread has the request, which must not ask again.
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
    """The bytes of the body.

    Raises Refused for a length that another reader could take for another one (said twice, with leading zeros, with
    more digits than any body has): what follows would be a request to one of them.
    """
    named = _LENGTHS.findall(text)
    if not named:
        return 0
    found = _LENGTH.fullmatch(named[0])
    if len(named) > 1 or found is None:
        raise Refused(400)
    return int(found[1])
