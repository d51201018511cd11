"""gunicorn's threaded worker, in which no thread ever waits for a client.

The event loop reads complete requests, answers health probes itself, lets callers take turns at the threads, and sends
data that a client does not read at once. It closes connections that send nothing, or too slowly. If there are too many
connections, it closes the one that has waited longest for a complete request.

It builds on gunicorn.workers.gthread: a thread runs its `handle` on a request that is in memory.
"""

import contextlib
import errno
import resource
import selectors
import socket
import time
from dataclasses import replace
from functools import partial
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from nousweb.lib.caller_identity import caller_of, network_of
from nousweb.lib.recorded_metrics import observe_request
from nousweb.lib.shutdown import stopping
from nousweb.runtime.web_worker.admission import Admission, WarmThreadPool
from nousweb.runtime.web_worker.connection import (
    HEALTH,
    Connection,
    Head,
    Limits,
    RequestRejected,
    State,
    head_of,
    health,
    limits_read,
    refusal,
)

READ_BYTES = 256 * 1024
SWEEP_SECONDS = 0.5
SPARE_FILES = 256
"""Open files of a process besides its connections: databases, figures, static files."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BufferingThreadWorker(ThreadWorker):
    """`limits` come from the configuration of gunicorn (nousweb/runtime/gunicorn.py)."""

    limits: Limits

    def init_process(self) -> None:
        """Called in the new process."""
        if self.cfg.is_ssl:
            raise RuntimeError("TLS is ended by a reverse proxy in front of the web server, not by gunicorn.")
        self.limits = limits_of(self.cfg)
        self.admission = Admission(self.limits)
        # In the order in which they began to wait for a request.
        self.reading: dict[Connection, None] = {}
        self.sending: dict[Connection, None] = {}
        self.held = 0
        self._swept = 0.0
        self._max_body_bytes = 0
        _allow_files(self.limits.connections + SPARE_FILES)
        super().init_process()

    def get_thread_pool(self) -> WarmThreadPool:
        """Called once, before the first request."""
        return WarmThreadPool(self.cfg.threads)

    def run(self) -> None:
        """Serve until the process has to stop."""
        from django.conf import settings

        self._max_body_bytes = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0
        super().run()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop the process: long waits end early."""
        stopping.set()
        super().handle_exit(sig, frame)

    # Connections come and go.

    def set_accept_enabled(self, enabled: bool) -> None:
        """Accept new connections or not. A process that has to stop accepts the waiting ones, and then no longer
        listens: later clients are refused at once and can use another process, instead of waiting for the end."""
        super().set_accept_enabled(enabled)
        if enabled or self.alive:
            return
        for listener in self.sockets:
            known = -1
            while known != self.nr_conns:
                known = self.nr_conns
                self.accept(listener)
            listener.close()

    def accept(self, listener: socket.socket) -> None:
        """Accept a new connection and read the data that it has sent already."""
        try:
            raw, client = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._evict()
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED):
                raise
            return
        connection = Connection(self.cfg, raw, client, listener.getsockname())
        self.nr_conns += 1
        if self.nr_conns >= self.limits.connections:
            self._evict()
        self._expect(connection, self.limits.head_seconds)
        self._readable(connection, raw)

    def _expect(self, connection: Connection, seconds: float) -> None:
        """Watch a connection for its next request, whose first byte must arrive within `seconds`."""
        now = time.monotonic()
        connection.state, connection.since, connection.deadline = State.READING, now, now + seconds
        self.reading[connection] = None
        self.poller.register(connection.raw, selectors.EVENT_READ, partial(self._readable, connection))

    def _leave(self, connection: Connection) -> None:
        """Stop watching a connection. The caller changes its state."""
        if connection.state in (State.READING, State.DRAINING):
            self.reading.pop(connection, None)
        elif connection.state is State.WRITING:
            self.sending.pop(connection, None)
        else:
            return
        with contextlib.suppress(OSError, KeyError, ValueError):
            self.poller.unregister(connection.raw)

    def _close(self, connection: Connection) -> None:
        if connection.state is State.CLOSED:
            return
        self._leave(connection)
        self.held -= len(connection.received)
        connection.received = bytearray()
        connection.state = State.CLOSED
        self.nr_conns -= 1
        connection.raw.close()

    def _close_gently(self, connection: Connection) -> None:
        """Close without cutting off the response: a client that is still sending must be able to read it."""
        self._leave(connection)
        try:
            connection.raw.shutdown(socket.SHUT_WR)
            unread = connection.raw.recv(READ_BYTES)
        except BlockingIOError:
            unread = b""
        except OSError:
            self._close(connection)
            return
        connection.state = State.RUNNING
        if not unread and not connection.received:
            self._close(connection)
            return
        self.held -= len(connection.received)
        connection.received = bytearray()
        self._expect(connection, self.limits.linger_seconds)
        connection.state = State.DRAINING

    def _evict(self) -> None:
        """Close the connection that has waited longest for a request, to make room."""
        for connection in self.reading:
            self._close(connection)
            return

    # Requests arrive.

    def _readable(self, connection: Connection, raw: Any) -> None:
        try:
            data = connection.raw.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(connection)
            return
        if connection.state is State.DRAINING:
            return
        if not connection.received:
            connection.since = time.monotonic()
            connection.deadline = connection.since + self.limits.head_seconds
        connection.received += data
        self.held += len(data)
        if self.held > self.limits.held_bytes:
            self._close(max(self.reading, key=lambda one: len(one.received)))
            if connection.state is State.CLOSED:
                return
        self._advance(connection)

    def _advance(self, connection: Connection) -> None:
        """Process a request if it has arrived completely."""
        before = len(connection.received)
        try:
            if connection.head is None:
                connection.head = head_of(connection.received, self.limits, self._max_body_bytes)
                self.held += len(connection.received) - before
                if connection.head is None:
                    return
                self._head_arrived(connection, connection.head)
        except RequestRejected as refused:
            self._refuse(connection, refused.status)
            return
        if connection.state is State.READING and connection.complete():
            self._leave(connection)
            self._arrived(connection)

    def _head_arrived(self, connection: Connection, head: Head) -> None:
        if connection.complete():
            return
        connection.deadline = (
            time.monotonic() + self.limits.body_seconds + head.length / self.limits.body_bytes_per_second
        )
        if head.expects:
            connection.sock.sendall(CONTINUE)

    def _arrived(self, connection: Connection) -> None:
        head = connection.request
        connection.state = State.QUEUED
        if HEALTH.match(head.text):
            self._answer_health(connection, head)
            return
        address = network_of((self.limits.trust_proxy and head.forwarded) or connection.address)
        connection.caller, known = caller_of(head.authorization, address)
        connection.size = head.length
        rate = self.limits.token_rate if known else self.limits.address_rate
        now = time.monotonic()
        wait = self.admission.retry_after(connection.caller, rate, now)
        if wait:
            self._refuse(connection, 429, retry_after=wait)
            return
        connection.since, connection.deadline = now, now + self.limits.wait_seconds
        if not self.admission.offer(connection):
            self._refuse(connection, 429, retry_after=2)
            return
        self._dispatch()

    def _answer_health(self, connection: Connection, head: Head) -> None:
        end = len(head.text) + head.length
        del connection.received[:end]
        self.held -= end
        connection.head = None
        keep = self.alive and not head.closes
        connection.sock.sendall(health(keep=keep, with_body=head.method != "HEAD"))
        self._answered(connection, keep=keep)

    def _refuse(self, connection: Connection, status: int, *, retry_after: int = 0) -> None:
        """Send an error response without the application, and close."""
        method = connection.head.method if connection.head else ""
        observe_request(method, "(refused)", status, 0.0)
        self._leave(connection)
        connection.state = State.QUEUED
        connection.sock.sendall(refusal(status, max_body_bytes=self._max_body_bytes, retry_after=retry_after))
        self._answered(connection, keep=False)

    # Requests are processed.

    def _dispatch(self) -> None:
        """Give requests to free threads."""
        while True:
            connection: Any = self.admission.take()
            if connection is None:
                return
            if time.monotonic() - connection.since > 1.0 and _gone(connection.raw):
                self.admission.done(connection)
                self._close(connection)
                continue
            before = len(connection.received)
            connection.prepare()
            self.held -= before - len(connection.received)
            connection.state = State.RUNNING
            self.enqueue_req(connection)

    def finish_request(self, conn: Any, fs: Any) -> None:
        """Called on the event loop after a thread has finished a request."""
        self.admission.done(conn)
        try:
            keep = bool(fs.result()) if not fs.cancelled() else False
        except Exception:
            self.log.exception("Error handling request")
            keep = False
        self._answered(conn, keep=keep)
        self._dispatch()

    def _keepalive_after(self, conn: Any, keepalive: bool) -> bool:
        """Any unread rest of a body is in memory and not in the socket."""
        return bool(keepalive)

    def _answered(self, connection: Connection, *, keep: bool) -> None:
        connection.keep = keep
        try:
            done = connection.sock.flush()
        except OSError:
            self._close(connection)
            return
        if done:
            self._sent(connection)
            return
        connection.state = State.WRITING
        connection.deadline = time.monotonic() + self.limits.send_seconds
        self.sending[connection] = None
        self.poller.register(connection.raw, selectors.EVENT_WRITE, partial(self._writable, connection))

    def _writable(self, connection: Connection, raw: Any) -> None:
        try:
            done = connection.sock.flush()
        except OSError:
            self._close(connection)
            return
        if done:
            self._leave(connection)
            self._sent(connection)

    def _sent(self, connection: Connection) -> None:
        connection.state = State.RUNNING
        if not connection.keep:
            self._close_gently(connection)
            return
        self._expect(connection, self.limits.keepalive_seconds)
        if connection.received:
            # The next request came together with this one.
            connection.deadline = connection.since + self.limits.head_seconds
            self.method_queue.defer(self._advance_kept, connection)

    def _advance_kept(self, connection: Connection) -> None:
        if connection.state is State.READING:
            self._advance(connection)

    # Time passes.

    def murder_keepalived(self, force: bool = False) -> None:
        """Close all open connections at the end of the process."""
        if force:
            for connection in [*self.reading, *self.sending]:
                self._close(connection)

    def murder_pending(self) -> None:
        """Close connections, and reject requests, whose deadline is over. Called after every round of events."""
        now = time.monotonic()
        if now < self._swept + SWEEP_SECONDS:
            return
        self._swept = now
        for connection in [connection for connection in self.reading if connection.deadline <= now]:
            if connection.state is State.READING and connection.received:
                self._refuse(connection, 408)
            else:
                self._close(connection)
        for connection in [connection for connection in self.sending if connection.deadline <= now]:
            self._close(connection)
        late: Any
        for late in [request for request in self.admission.waiting() if request.deadline <= now]:  # type: ignore[attr-defined]
            self.admission.withdraw(late)
            self._refuse(late, 503, retry_after=5)

    def _cap_keepalive(self, deadline: float) -> None:
        """The process has to stop: clients must begin a request before `deadline`."""
        for connection in self.reading:
            connection.deadline = min(connection.deadline, deadline)


def limits_of(cfg: Any) -> Limits:
    """The limits from the environment, with those of gunicorn's command line."""
    return replace(limits_read(threads=cfg.threads), connections=cfg.worker_connections)


def _gone(raw: socket.socket) -> bool:
    """Whether the client has closed its end, or at least its sending side, which looks the same."""
    try:
        return raw.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
