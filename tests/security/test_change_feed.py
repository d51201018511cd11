"""Eight writers and three readers of the change feed, and a webhook whose receiver fails half the time, while a process
of the web server and the worker are killed: every committed change is seen once and in order by each reader, and sent
to the receiver at least once."""

import http.client
import json
import os
import random
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.product import Product, kill, product_running, until
from tests.security.scale import scaled

WRITERS = 8
READERS = 3
SECONDS = scaled(5, 120)
KILLS = scaled(1, 8)
MAKE = """
import os, sys, django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
django.setup()
from identity.models import Agent
from identity.principal import Principal
from identity.services.webhooks import webhook_create
by = Principal.of_system("tests")
scopes = ["identity:read", "memory:read", "context:read"]
webhook_create(agent=Agent.objects.get(slug="ada"), url=sys.argv[1], scopes=scopes, by=by)
"""


@pytest.fixture
def product():
    with product_running("feed", NOUS_WEB_WORKERS="2", NOUS_WEBHOOK_ALLOW_PRIVATE="1") as running:
        yield running


class Receiver:
    """Takes what it is sent, and says that it failed every second time on average, also when it took it."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.failed = self.messages = 0
        chance = random.Random(12)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fails = chance.random() < 0.5
                if fails:
                    receiver.failed += 1
                else:
                    receiver.messages += 1
                    receiver.taken += [change["id"] for change in body["changes"]]
                self.send_response(500 if fails else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"


class Reader:
    """Follows the feed as docs/changes.md says: whatever fails is asked again with the same cursor."""

    def __init__(self, product: Product, after: str) -> None:
        self.product, self.after = product, after
        self.seen: list[str] = []
        self.failures = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while True:
            last = self.over.is_set()
            status, answer = self.get(f"/changes?after={self.after}&wait={0 if last else 5}&limit=50")
            if status != 200:
                self.failures += 1
                time.sleep(0.2)
                continue
            self.seen += [item["id"] for item in answer["items"]]
            self.after = answer["next"]
            if last and not answer["items"]:
                return

    def get(self, path: str) -> tuple[int, dict]:
        status, answer = self.product.call("GET", path)
        return status, answer if isinstance(answer, dict) else {}


def write(product: Product, number: int, over: threading.Event) -> None:
    step = 0
    while not over.is_set():
        step += 1
        kind = step % 4
        if kind == 0:
            product.call(
                "POST", "/facts", {"content": f"Reading {number}-{step} was {step * 7}.", "subject": f"{number}"}
            )
        elif kind == 1:
            event = {"kind": "user_input", "content": f"{number}-{step}", "loop_id": f"{number}-{step}"}
            product.call("POST", "/events", {"events": [event]})
        elif kind == 2:
            product.call("POST", "/episodes", {"title": f"Episode {number}-{step}"})
        else:
            product.call("POST", "/context", {"session_id": f"{number}", "input": "What was read?"})


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def answers(product: Product) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", product.port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def test_every_committed_change_once_and_in_order(product):
    receiver = Receiver()
    product.run("-c", MAKE, receiver.url)
    web, worker = product.web(), product.worker()
    until("the web server answers", lambda: answers(product))
    status, answer = product.call("GET", "/changes?after=now")
    assert status == 200
    begun = answer["next"]
    readers = [Reader(product, begun) for _ in range(READERS)]
    over = threading.Event()
    writers = [threading.Thread(target=write, args=(product, number, over), daemon=True) for number in range(WRITERS)]
    for thread in writers:
        thread.start()
    chance = random.Random(7)
    for _ in range(KILLS):
        time.sleep(SECONDS / (KILLS + 1))
        until("the web server has a process to kill", lambda: children(web.pid))
        os.kill(chance.choice(children(web.pid)), signal.SIGKILL)
        kill(worker)
        worker = product.worker()
    time.sleep(SECONDS / (KILLS + 1))
    over.set()
    for thread in writers:
        thread.join()
    ended = time.monotonic()
    # What a killed process was about is committed or rolled back by now; the worker may still write.
    until("the worker has nothing left to do", lambda: quiet(product))
    for reader in readers:
        reader.over.set()
    for reader in readers:
        reader.thread.join(120)
        assert not reader.thread.is_alive()
    rows = product.rows(
        "SELECT key::text, position FROM identity_change WHERE persona = 'actor' ORDER BY position NULLS LAST"
    )
    places = [position for _, position in rows]
    assert places == list(range(1, len(rows) + 1))
    mark = [key for key, _ in rows].index(readers[0].seen[0])
    expected = [key for key, _ in rows][mark:]
    for reader in readers:
        assert reader.seen == expected
    assert len(expected) > WRITERS
    until("everything has arrived", lambda: set(expected) <= set(receiver.taken))
    behind = time.monotonic() - ended
    first = list(dict.fromkeys(receiver.taken))
    assert first == [key for key, _ in rows][-len(first) :]
    assert receiver.failed
    print(f"{len(expected)} changes, {sum(reader.failures for reader in readers)} failed reads,", end=" ")
    print(f"{receiver.failed} failed deliveries, {receiver.messages} delivered,", end=" ")
    print(f"{len(receiver.taken) - len(first)} changes repeated, all arrived {behind:.0f} s after the last write")


def quiet(product: Product) -> bool:
    open_jobs = product.rows("SELECT count(*) FROM memory_job WHERE status NOT IN ('done', 'dead')")
    return open_jobs == [(0,)]
