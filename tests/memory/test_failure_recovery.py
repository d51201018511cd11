"""Killing the worker and the database in the middle of an import: what was acknowledged is there, once.

A whole product of its own: PostgreSQL with its crash safety on, the web server, the worker, and an endpoint for
embeddings that fails for a while.
"""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

from nousweb.postgres import EmbeddedServer
from tests.memory.embedders import endpoint

PROJECT = Path(__file__).resolve().parent.parent.parent
BATCHES, SIZE, LOOPS = 24, 20, 6
PATIENCE = 120


class Product:
    """The programs of one data folder, each of which a test may kill."""

    def __init__(self, folder: Path, embeddings_url: str) -> None:
        self.folder = folder
        self.server = EmbeddedServer(folder, say=lambda line: None)
        self.url = self.server.start()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NOUS_")}
        self.environment = kept | {
            "DATABASE_URL": self.url,
            "NOUS_DATA_DIR": str(folder),
            "NOUS_SECRET_KEY": "only-for-tests-" + "x" * 50,
            "NOUS_PORT": str(self.port),
            "NOUS_WEB_WORKERS": "1",
            "NOUS_EMBEDDER": "openai",
            "NOUS_EMBED_MODEL": "test",
            "NOUS_EMBED_BASE_URL": embeddings_url,
        }
        self.environment.pop("DJANGO_SETTINGS_MODULE", None)
        (folder / "static").mkdir(exist_ok=True)
        self.programs: list[subprocess.Popen[bytes]] = []
        self.manage("migrate", "--verbosity", "0")
        self.manage("createagent", "ada", "--name", "Ada")
        self.token = self.manage("createtoken", "ada", "--persona", "actor").strip()

    def manage(self, *arguments: str) -> str:
        finished = subprocess.run(
            [sys.executable, str(PROJECT / "manage.py"), *arguments],
            env=self.environment, capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        assert finished.returncode == 0, finished.stderr[-2000:]
        return finished.stdout

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "programs.log").open("ab")
        program = subprocess.Popen(
            [sys.executable, *command],
            cwd=PROJECT,
            env=self.environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.programs.append(program)
        return program

    def web(self) -> subprocess.Popen[bytes]:
        return self.start("-m", "gunicorn", "-c", "python:nousweb.gunicorn")

    def worker(self) -> subprocess.Popen[bytes]:
        return self.start(str(PROJECT / "manage.py"), "qcluster")

    def kill_database(self) -> None:
        """The machine's power goes, as far as PostgreSQL can tell."""
        pid = int((self.server.placement.cluster / "postmaster.pid").read_text().split()[0])
        for child in self.server._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.server._process = None

    def call(self, method: str, path: str, body: object = None) -> tuple[int, object]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(
                method,
                f"/api{path}",
                None if body is None else json.dumps(body),
                {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            )
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"null")
        except (OSError, http.client.HTTPException, ValueError) as error:
            return 0, str(error)
        finally:
            connection.close()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(query).fetchall()

    def stop(self) -> None:
        for program in self.programs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        self.server.destroy()


def kill(program: subprocess.Popen[bytes]) -> None:
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()


def until(what: str, true) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.2)


@pytest.fixture
def product():
    # Not pytest's own folder, which the account that runs PostgreSQL for root may not enter.
    folder = Path(tempfile.mkdtemp(prefix="nous-failure-"))
    folder.chmod(0o755)
    with endpoint() as served:
        running = Product(folder, served.url)
        try:
            yield running, served
        finally:
            running.stop()
            shutil.rmtree(folder, ignore_errors=True)


def batch(number: int) -> dict[str, object]:
    """Some events of every loop; the last batch closes them all. Keys make a repeated call harmless."""
    events = [
        {
            "kind": "user_input",
            "content": f"Entry {number}-{place} is about topic {place % 7}.",
            "loop_id": f"loop-{place % LOOPS}",
            "key": f"{number}-{place}",
        }
        for place in range(SIZE)
    ]
    if number == BATCHES - 1:
        events += [
            {"kind": "actor_output", "content": "Done.", "loop_id": f"loop-{n}", "key": f"end-{n}"}
            for n in range(LOOPS)
        ]
    return {"events": events}


def test_nothing_acknowledged_is_lost_and_nothing_is_there_twice(product):
    running, served = product
    running.web()
    worker = running.worker()
    until("the web server answers", lambda: running.call("GET", "/index")[0] == 200)
    acknowledged: dict[str, int] = {}
    for number in range(BATCHES):
        if number == 4:
            kill(worker)
        if number == 6:
            served.broken = True
            worker = running.worker()
        if number == 10:
            running.kill_database()
        if number == 12:
            running.server.start()
        if number == 18:
            kill(worker)
        deadline = time.monotonic() + PATIENCE
        while True:
            status, answer = running.call("POST", "/events", batch(number))
            if status == 201:
                break
            # While the database is down there is no acknowledgement, and the import tries again.
            assert status in (0, 500, 503), (status, answer)
            assert time.monotonic() < deadline
            if number >= 10 and not running.server.running():
                running.server.start()
            time.sleep(0.2)
        for posted, stored in zip(batch(number)["events"], answer["events"], strict=True):
            acknowledged[posted["key"]] = stored["id"]
    served.broken = False
    running.worker()
    until("every loop has its summary", lambda: running.rows(
        "SELECT count(*) FROM memory_loopsummary WHERE closed_at IS NOT NULL AND covered_events = event_count"
    ) == [(LOOPS,)])  # fmt: skip
    # Back-off is minutes long; an operator does not wait for it.
    with psycopg.connect(running.url) as connection:
        connection.execute("UPDATE memory_searchitem SET due_at = NULL WHERE status = 'pending'")
    running.manage("backfill")
    running.manage("backfill")
    total = len(acknowledged)
    assert total == BATCHES * SIZE + LOOPS
    assert dict(running.rows("SELECT key, id::text FROM memory_event")) == acknowledged
    assert running.rows("SELECT count(*), count(DISTINCT event_id) FROM memory_longtermentry") == [(total, total)]
    assert running.rows("SELECT status, count(*) FROM memory_searchitem GROUP BY 1") == [("ready", total)]
    assert running.rows(
        "SELECT count(*) FROM memory_event AS e JOIN memory_searchitem AS i ON i.item_id = e.id::text"
        " AND i.item_type = 'event' AND i.embedding IS NOT NULL"
    ) == [(total,)]
    loops = running.rows(
        "SELECT loop_id, event_count, covered_events, summary <> '' FROM memory_loopsummary ORDER BY 1"
    )
    assert [row[0] for row in loops] == [f"loop-{n}" for n in range(LOOPS)]
    assert sum(row[1] for row in loops) == total
    assert all(row[1] == row[2] and row[3] for row in loops)
    status, found = running.call("GET", "/recall?q=Entry%2011-3&type=event&min_score=0&limit=5")
    assert status == 200
    assert any(item["content"].startswith("Entry 11-3 ") for item in found["items"])
    assert running.call("GET", "/index") == (200, {"ready": total, "pending": 0, "failed": 0})
