"""One connection: what was received of its request, its limits, and the bytes to send."""

import json
import re
import select
import socket
import time
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import uuid4

from gunicorn.http import get_parser
from gunicorn.workers.gthread import TConn

from nousweb.lib.env import flag, read, whole

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """All limits hold for one web process; sizes are in bytes, times in seconds."""

    threads: int
    connections: int
    concurrency: int
    """Threads that one caller (a token, or an address without one) may use at a time."""
    queue: int
    """Requests of one caller that may wait for a thread; the next is rejected."""
    token_rate: int
    """Requests a minute of one token; 0 for no limit."""
    address_rate: int
    """Requests a minute of one address without a known token; 0 for no limit."""
    trust_proxy: bool
    head_seconds: float = 10.0
    head_bytes: int = 64 * 1024
    body_seconds: float = 20.0
    body_bytes_per_second: int = 64 * 1024
    """Minimum rate of a body: it may take `body_seconds`, and its length divided by this rate."""
    keepalive_seconds: float = 5.0
    send_seconds: float = 30.0
    """Maximum time in which a client must have read its response."""
    linger_seconds: float = 2.0
    wait_seconds: float = 30.0
    """Maximum time that a request waits for a thread."""
    large_bytes: int = 256 * 1024
    """Reading a body of this size stops the other threads of a process; `large_at_once` are read at a time."""
    large_at_once: int = 2
    queue_bytes: int = 64 * MEBIBYTE
    """Maximum size of the queued bodies of one caller."""
    held_bytes: int = 256 * MEBIBYTE
    """Maximum size of all received data that no thread processes yet."""

    @property
    def share(self) -> int:
        """Maximum number of threads of one caller: always fewer than all, unless there is only one."""
        return max(1, min(self.concurrency or self.threads // 2, self.threads - 1))


def limits_read(*, threads: int) -> Limits:
    """Read the limits from the environment. Raises BadSetting."""
    return Limits(
        threads=threads,
        connections=read("NOUS_WEB_CONNECTIONS", whole(16, 100_000), 1000),
        concurrency=read("NOUS_TOKEN_CONCURRENCY", whole(0, 64), 0),
        queue=read("NOUS_TOKEN_QUEUE", whole(1, 10_000), 100),
        token_rate=read("NOUS_TOKEN_RATE", whole(0, 10_000_000), 18_000),
        address_rate=read("NOUS_ADDRESS_RATE", whole(0, 10_000_000), 6_000),
        trust_proxy=read("NOUS_TRUST_PROXY", flag, False),
    )


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


MAX_UNSENT_BYTES = MEBIBYTE
"""Maximum number of buffered bytes. A thread that adds more waits."""
WRITING_PATIENCE = 10.0
"""Maximum seconds that it waits."""


class State(Enum):
    READING = "reading"
    QUEUED = "queued"
    RUNNING = "running"
    WRITING = "writing"
    DRAINING = "draining"
    CLOSED = "closed"


class SendBuffer:
    """A socket for gunicorn to write to. It buffers data that the client does not read at once, for the event loop to
    send."""

    def __init__(self, raw: socket.socket) -> None:
        self.raw = raw
        self.unsent = bytearray()

    def sendall(self, data: bytes) -> None:
        """Send `data` or buffer it. Raises BrokenPipeError if the client leaves too much of it unread for too long."""
        if self.unsent:
            self.unsent += data
        else:
            sent = self._sent(data)
            if sent < len(data):
                self.unsent += memoryview(data)[sent:]
        if len(self.unsent) > MAX_UNSENT_BYTES:
            self._wait()

    def send(self, data: bytes) -> int:
        self.sendall(data)
        return len(data)

    def flush(self) -> bool:
        """Send as much as possible now; return whether the buffer is empty. Raises OSError."""
        while self.unsent:
            sent = self._sent(memoryview(self.unsent)[: 256 * 1024].tobytes())
            if not sent:
                return False
            del self.unsent[:sent]
        return True

    def _sent(self, data: bytes) -> int:
        try:
            return self.raw.send(data)
        except BlockingIOError:
            return 0

    def _wait(self) -> None:
        deadline = time.monotonic() + WRITING_PATIENCE
        watch = select.poll()
        watch.register(self.raw, select.POLLOUT)
        while not self.flush() and len(self.unsent) > MAX_UNSENT_BYTES // 2:
            left = deadline - time.monotonic()
            if left <= 0 or not watch.poll(left * 1000):
                raise BrokenPipeError(32, "The client does not take its answer")

    # The socket never blocks, even if gunicorn requests it.
    def setblocking(self, flag: bool) -> None:
        """Ignored."""

    def settimeout(self, seconds: float | None) -> None:
        """Ignored."""

    def gettimeout(self) -> float:
        return 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class Connection(TConn):
    """`since` and `deadline` are on the monotonic clock; `caller` and `size` are those of the request at hand."""

    def __init__(self, cfg: Any, raw: socket.socket, client: Any, server: Any) -> None:
        super().__init__(cfg, raw, client, server)
        self.sock: Any = SendBuffer(raw)
        self.raw = raw
        # The preparations of gunicorn's own worker are not needed: it never reads from this socket.
        self.initialized = True
        self.data_ready = True
        self.state = State.READING
        self.received = bytearray()
        self.head: Head | None = None
        self.since = 0.0
        self.deadline = 0.0
        self.caller = ""
        self.size = 0
        self.keep = False

    @property
    def address(self) -> str:
        """The address of the client, if it has one."""
        return str(self.client[0]) if isinstance(self.client, tuple) else ""

    @property
    def request(self) -> Head:
        """The head of the request at hand."""
        if self.head is None:
            raise LookupError("No request has begun on this connection.")
        return self.head

    def complete(self) -> bool:
        """Whether the body of the current request has arrived."""
        return self.head is not None and len(self.received) >= len(self.head.text) + self.head.length

    def prepare(self) -> None:
        """Give gunicorn's parser exactly one complete request to read."""
        begin, end = len(self.request.text), len(self.request.text) + self.request.length
        body = bytes(memoryview(self.received)[begin:end])
        pieces = [body[place : place + MEBIBYTE] for place in range(0, len(body), MEBIBYTE)]
        self.parser = get_parser(self.cfg, iter([self.request.text, *pieces]), self.client)
        del self.received[:end]
        self.head = None
