"""Requests to other programs over HTTP. Whatever the other side does, each ends in time, with an answer of bounded size
and depth, or with an error."""

import re
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from threading import Lock, Timer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import AbstractHTTPHandler, OpenerDirector, ProxyHandler, Request, UnknownHandler

MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_ANSWER_DEPTH = 100
"""Of nested objects and lists in an answer of JSON: those who parse it recurse."""
TOO_LATE = "The answer took too long."

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


class BadAnswer(HTTPException):
    """An answer that is too large, nested too deeply or compressed."""


class BusyServer(Exception):
    """A temporary error: ask again, after `retry_after` seconds if the server named a time."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def retry_after_seconds(header: str | None) -> float | None:
    """The seconds that a Retry-After names, at most a day; None without a number."""
    try:
        return min(max(0.0, float(header or "")), 24 * 3600.0)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A complete answer, whatever its status; redirects are not followed."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


def http_exchange(
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    seconds: float,
    method: str = "POST",
    max_bytes: int = MAX_ANSWER_BYTES,
    authorities: str = "",
) -> HttpAnswer:
    """Send one request, through the proxy of the environment if there is one, but never to this machine itself;
    `authorities` is a file of further certificates.

    Raises TimeoutError after `seconds`, however the time was spent (only the name lookup has limits of its own), and
    otherwise OSError, HTTPException or ValueError.
    """
    sent = {name: value for name, value in headers.items() if name.lower() != "accept-encoding"}
    request = Request(url, body, sent, method=method)  # noqa: S310  (the opener knows http and https only)
    with Cut(seconds) as cut:
        opener = OpenerDirector()
        proxies = ProxyHandler({}) if is_this_machine(url) else ProxyHandler()
        for handler in (proxies, UnknownHandler(), _Connections(cut, authorities)):
            opener.add_handler(handler)
        with opener.open(request, timeout=seconds) as response:
            found = response.read(max_bytes + 1)
            answer = HttpAnswer(response.status, response.headers.items(), found)
    if len(found) > max_bytes:
        raise BadAnswer(f"The answer has more than {max_bytes:,} bytes.")
    if (answer.header("content-encoding") or "identity").lower() != "identity":
        raise BadAnswer("The answer is compressed, which was not asked for.")
    if json_is_deep(found):
        raise BadAnswer(f"The answer is nested more than {MAX_ANSWER_DEPTH} deep.")
    return answer


def is_this_machine(url: str) -> bool:
    """Whether `url` has an address by which only this machine is reached."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def json_is_deep(text: bytes) -> bool:
    """Whether objects and lists are nested more than MAX_ANSWER_DEPTH deep."""
    if text.count(b"[") + text.count(b"{") <= MAX_ANSWER_DEPTH:
        return False
    depth = 0
    for found in _BRACKETS.finditer(_STRINGS.sub(b"", text)):
        depth += 1 if found[0] in b"[{" else -1
        if depth > MAX_ANSWER_DEPTH:
            return True
    return False


class Cut:
    """Cuts the connections that it has made when its time is over. Leaving the block then raises TimeoutError."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._timer = Timer(seconds, self._fire)
        self._timer.daemon = True
        self._lock = Lock()
        self._fired = False
        self._handles: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            for handle in self._handles:
                handle.close()
            self._handles.clear()
        # What was cut may look like any end of a connection, even a regular one.
        if time.monotonic() >= self._end and (kind is None or issubclass(kind, (OSError, HTTPException, ValueError))):
            raise TimeoutError(TOO_LATE) from error

    def connect(self, address: tuple[str, int], *ignored: object) -> socket.socket:
        """A connection to the first address of a host that accepts one."""
        failed: OSError = socket.gaierror("The host name cannot be resolved.")
        for found in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            rest = self._end - time.monotonic()
            if rest <= 0:
                raise TimeoutError(TOO_LATE)
            try:
                return self._watch(socket.create_connection((str(found[4][0]), address[1]), rest))
            except OSError as error:
                failed = error
        raise failed

    def _watch(self, connected: socket.socket) -> socket.socket:
        # A handle of its own on the same connection: TLS takes the first one over.
        with self._lock:
            self._handles.append(connected.dup())
            if self._fired:
                connected.shutdown(socket.SHUT_RDWR)
        return connected

    def _fire(self) -> None:
        with self._lock:
            self._fired = True
            for handle in self._handles:
                with suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)


class _Connections(AbstractHTTPHandler):
    """Opens connections that end with `cut`."""

    def __init__(self, cut: Cut, authorities: str) -> None:
        super().__init__()
        self._cut, self._authorities = cut, authorities

    http_request = https_request = AbstractHTTPHandler.do_request_

    def http_open(self, request: Request) -> Any:
        return self.do_open(self._made(HTTPConnection), request)

    def https_open(self, request: Request) -> Any:
        return self.do_open(self._made(HTTPSConnection), request, context=_tls(self._authorities))

    def _made(self, kind: type[HTTPConnection]) -> Any:
        def make(host: str, **more: Any) -> HTTPConnection:
            connection = kind(host, **more)
            connection._create_connection = self._cut.connect  # type: ignore[attr-defined]
            return connection

        return make


@lru_cache(maxsize=4)
def _tls(authorities: str) -> ssl.SSLContext:
    """Trusts the machine's authorities (or those of SSL_CERT_FILE) and the packaged ones."""
    # Imported here: only https needs it.
    import certifi

    context = ssl.create_default_context()
    for path in filter(None, (certifi.where(), authorities)):
        context.load_verify_locations(path)
    return context
