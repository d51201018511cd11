"""One connection: its received bytes, its current request, and its bytes to send."""

import select
import socket
import time
from enum import Enum
from typing import Any

from gunicorn.http import get_parser
from gunicorn.workers.gthread import TConn

from nousweb.runtime.web_worker.request_heads import Head
from nousweb.runtime.web_worker.request_limits import MEBIBYTE

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
