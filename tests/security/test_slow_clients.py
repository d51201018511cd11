"""Clients that bring nothing, or bring it slowly, and one caller that takes all it can: everybody else is answered."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.product import Product, product_running, until
from tests.security.scale import scaled

SLOW = scaled(120, 400)
"""Connections, in four equal parts: silent, half a header, a header byte by byte, a body byte by byte."""
GREEDY = scaled(20, 40)
"""Connections of one token, each sending large batches one after the other."""
SECONDS = scaled(8, 60)
BETWEEN_SECONDS = 0.05
"""Whoever measures asks again after so long, and is no greedy client itself."""
EVENTS, LENGTH = scaled(100, 500), 2_000
PATIENCE = 120.0
PREPARE = """
import os, django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
django.setup()
from django.core.management import call_command
call_command("createagent", "bruno", "--name", "Bruno")
call_command("createtoken", "bruno", "--persona", "actor")
"""


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with product_running("slow", NOUS_WEB_WORKERS="2") as running:
        running.web()
        until("ready", lambda: running.call("GET", "/events")[0] == 200)
        yield running


class SlowClients:
    """Connections that are kept open, and opened again whenever the server closes one."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        body = b"POST /api/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        body += f"Authorization: Bearer {token}\r\nContent-Length: 8000000\r\n\r\n".encode()
        self.kinds = ((b"", b""), (b"GET /api/ev", b""), (b"GET / HTTP/1.1\r\nX-Slow: ", b"y"), (body, b"["))
        self._sockets: list[tuple[socket.socket, bytes]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._dribble, daemon=True)
        self.reopened = 0

    def __enter__(self) -> "SlowClients":
        self._sockets = [self._open(number) for number in range(SLOW)]
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        for one, _ in self._sockets:
            one.close()

    def _open(self, number: int) -> tuple[socket.socket, bytes]:
        first, more = self.kinds[number % len(self.kinds)]
        one = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE)
        one.sendall(first)
        one.setblocking(False)
        return one, more

    def _dribble(self) -> None:
        while not self._stop.wait(0.5):
            for number, (one, more) in enumerate(self._sockets):
                try:
                    if more:
                        one.send(more)
                    gone = one.recv(65536) == b""
                except BlockingIOError:
                    gone = False
                except OSError:
                    gone = True
                if gone:
                    one.close()
                    self._sockets[number] = self._open(number)
                    self.reopened += 1


class GreedyClients:
    """One token on many connections, which sends as much as it can."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(n,), daemon=True) for n in range(GREEDY)]
        self.statuses: dict[int, int] = {}

    def __enter__(self) -> "GreedyClients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _send(self, number: int) -> None:
        events = [
            {"kind": "user_input", "content": f"Event {place} of {number}. " + "word " * (LENGTH // 5), "loop_id": "l"}
            for place in range(EVENTS)
        ]
        body = json.dumps({"events": events}).encode()
        while not self._stop.is_set():
            status = ask(self._product.port, "POST", "/api/events", self._product.token, body)[0]
            self.statuses[status] = self.statuses.get(status, 0) + 1


def ask(port: int, method: str, path: str, token: str = "", body: bytes | None = None) -> tuple[int, float]:
    """The status, or 0 when there was no answer, and the seconds that it took, with the connection."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        response.read()
        return response.status, time.perf_counter() - began
    except OSError:
        return 0, time.perf_counter() - began
    finally:
        connection.close()


def measured(product: Product, token: str, label: str) -> None:
    """For some seconds the health probe and another agent's context must answer; prints how long they took."""
    took: dict[str, list[float]] = {"/healthz": [], "context": []}
    question = json.dumps({"session_id": "s", "input": "What do you know of the harbour?"}).encode()
    for _ in range(20):
        # Each process answers its first one slowly, whoever else asks.
        ask(product.port, "POST", "/api/context", token, question)
    until_then = time.monotonic() + SECONDS
    while time.monotonic() < until_then:
        status, seconds = ask(product.port, "GET", "/healthz")
        assert status == 200
        took["/healthz"].append(seconds)
        status, seconds = ask(product.port, "POST", "/api/context", token, question)
        assert status == 200
        took["context"].append(seconds)
        time.sleep(BETWEEN_SECONDS)
    for name, times in took.items():
        times.sort()
        print(f"{label}: {name}: {len(times)} calls, median {times[len(times) // 2]:.3f} s, worst {times[-1]:.3f} s")


@pytest.fixture(scope="module")
def other_token(product: Product) -> str:
    return product.run("-c", PREPARE).strip()


def test_slow_clients_stop_nobody(product: Product, other_token: str) -> None:
    with SlowClients(product.port, product.token) as slow:
        measured(product, other_token, f"{SLOW} slow connections")
        print(f"opened again: {slow.reopened}")


def test_slow_clients_and_a_greedy_token_stop_nobody(product: Product, other_token: str) -> None:
    with SlowClients(product.port, product.token), GreedyClients(product) as greedy:
        # They are all at it.
        time.sleep(2)
        measured(product, other_token, f"{SLOW} slow connections and {GREEDY} of one token")
    print(f"the greedy token was answered {greedy.statuses}")
    assert set(greedy.statuses) <= {201, 429, 503}
    assert greedy.statuses.get(201)
