"""A local server whose answers are of the kind that a broken or hostile one gives to a program that calls it."""

import contextlib
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

PAUSE = 0.2
"""Seconds between two bytes of an answer that drips; it has some 20 seconds to come to its end."""
DEEP = b"[" * 100_000 + b"]" * 100_000

Sent = tuple[bytes, bytes]
"""Head and body."""


def answer(body: bytes, *more: str, status: str = "200 OK") -> Sent:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *more, "", ""]
    return "\r\n".join(lines).encode(), body


class HostileServer:
    """Answers every request with `sent`, a byte at a time where `drips` is "head" or "body"."""

    def __init__(self) -> None:
        self.sent: Callable[[], Sent] = lambda: answer(b"{}")
        self.drips = ""
        self._ends = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def gives(self, value: Any, *, drips: str = "", compressed: bool = False) -> "HostileServer":
        """From now on it answers with this value as JSON, or with these bytes."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        if drips == "body":
            # JSON with white space at its end is whole, and what it says is right.
            body += b" " * 100
        filler = ["X-Filler: " + "x" * 100] if drips == "head" else []
        encoding = ["Content-Encoding: gzip"] if compressed else []
        self.sent = lambda: answer(gzip.compress(body) if compressed else body, *filler, *encoding)
        self.drips = drips
        return self

    @contextlib.contextmanager
    def running(self) -> Iterator["HostileServer"]:
        server = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    received = b""
                    while b"\r\n\r\n" not in received:
                        received += self.request.recv(65536) or b"\r\n\r\n"
                    head, body = server.sent()
                    server._send(self.request, head, drips=server.drips == "head", at_once=60)
                    server._send(self.request, body, drips=server.drips == "body", at_once=len(body) - 100)

        class Server(ThreadingTCPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ends.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join(5)

    def _send(self, connection: Any, data: bytes, *, drips: bool, at_once: int) -> None:
        if not drips:
            connection.sendall(data)
            return
        connection.sendall(data[:at_once])
        for place in range(at_once, len(data)):
            if self._ends.wait(PAUSE):
                return
            connection.sendall(data[place : place + 1])
