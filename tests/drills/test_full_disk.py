"""A disk that another program fills to its last byte, under load, and frees again: `serve` goes on by itself."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from nousweb.runtime.postgres import EmbeddedServer
from nousweb.runtime.supervisor import answers
from tests.drills.programs import free_port
from tests.product import PATIENCE, PROJECT, prepared_cluster_copy, tied, until
from tests.security.scale import scaled

DISK_MB = 512
FULL_SECONDS = scaled(15, 60)
BACK_SECONDS = 60
FILLER = "filler"
LONG = "The ferry to the island leaves at noon. " * 300


@pytest.fixture
def disk() -> Iterator[Path]:
    """A small disk of its own."""
    folder = Path(tempfile.mkdtemp(prefix="nous-disk-"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=755", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    yield folder
    (folder / FILLER).unlink(missing_ok=True)
    EmbeddedServer(folder, say=lambda line: None).destroy()
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    folder.rmdir()


class Writer:
    """Calls the API with the token of an agent, and keeps what was answered."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self.acknowledged: list[str] = []
        self.refused: Counter[str] = Counter()

    def call(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, object], str | None]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read()), response.headers["Retry-After"]
        except (OSError, http.client.HTTPException, ValueError) as error:
            return 0, {"code": type(error).__name__}, None
        finally:
            connection.close()

    def write(self) -> tuple[int, dict[str, object], str | None]:
        event = {"kind": "user_input", "content": LONG, "loop_id": "loop"}
        status, said, retry = self.call("POST", "/api/events", {"events": [event]})
        if status == 201:
            self.acknowledged.append(said["events"][0]["id"])  # type: ignore[index]
        else:
            self.refused[f"{status} {said.get('code')}"] += 1
        return status, said, retry

    def told(self) -> tuple[int, dict[str, object], str | None]:
        """What a write is answered once it is its turn: what is refused at once comes back faster than a token may
        send (429)."""
        answer = self.write()
        end = time.monotonic() + PATIENCE
        while answer[0] == 429 and time.monotonic() < end:
            time.sleep(0.2)
            answer = self.write()
        return answer

    @contextlib.contextmanager
    def writing(self, count: int) -> Iterator[None]:
        """So many threads that write without pause, until the end of the block."""
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                self.write()

        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(PATIENCE)


def fill(disk: Path) -> None:
    """Take each byte that is free."""
    with (disk / FILLER).open("ab", buffering=0) as filler:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    filler.write(b"x" * size)


@contextlib.contextmanager
def serving(disk: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    ours = ("NOUS_", "DATABASE_", "DJANGO_SETTINGS_MODULE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # What the programs say goes to the same disk.
    with (disk / "serve.log").open("wb") as log:
        serve = subprocess.Popen(
            tied(sys.executable, str(PROJECT / "manage.py"), "serve"),
            cwd=PROJECT,
            env=kept | {"NOUS_DATA_DIR": str(disk), "NOUS_PORT": str(port)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield serve
    finally:
        if serve.poll() is None:
            serve.send_signal(signal.SIGTERM)
            serve.wait(PATIENCE)


def database_ended(server: EmbeddedServer) -> None:
    """Write into PostgreSQL's own log until it ends itself, because the next segment finds no room."""
    message = "SELECT pg_logical_emit_message(false, 'drill', repeat('x', 1024 * 1024)) FROM generate_series(1, %s)"
    with server._connected() as superuser, pytest.raises(psycopg.OperationalError):
        superuser.execute(message, [DISK_MB])


def test_full_disk_refuses_changes_and_is_left_behind_by_itself(disk: Path) -> None:
    server = EmbeddedServer(disk, say=lambda line: None)
    token = prepared_cluster_copy(server)
    port = free_port()
    ready = f"http://127.0.0.1:{port}/readyz"
    writer = Writer(port, token)
    with serving(disk, port) as serve:
        log = disk / "serve.log"
        until("ready", lambda: answers(ready, "localhost") or serve.poll() is not None)
        assert serve.poll() is None, log.read_text()

        def full() -> None:
            began = time.monotonic()
            while time.monotonic() < began + FULL_SECONDS:
                # Whoever fills a disk takes what others free, too.
                fill(disk)
                time.sleep(0.5)
            assert serve.poll() is None, log.read_text()[-3000:]

        def freed() -> None:
            before = len(writer.acknowledged)
            (disk / FILLER).unlink()
            until("written again", lambda: len(writer.acknowledged) > before, patience=BACK_SECONDS)
            until("ready again", lambda: answers(ready, "localhost"), patience=BACK_SECONDS)
            assert serve.poll() is None

        with writer.writing(4):
            until("written", lambda: len(writer.acknowledged) > 50, state=lambda: writer.refused)
            full()
            status, said, retry = writer.told()
            assert (status, said.get("code")) == (503, "disk_full"), (said, log.read_text()[-3000:])
            assert retry is not None
            assert "disk" in str(said["detail"])
            assert writer.call("GET", "/api/events")[0] == 200
            assert writer.call("GET", "/api/recall?q=ferry")[0] == 200
            status, said, _ = writer.call("GET", "/readyz")
            assert status == 503
            assert "database_disk" in said["failing"]  # type: ignore[operator]
            freed()
            fill(disk)
            database_ended(server)
            full()
            assert writer.told()[0] == 503
            freed()
        lost = [key for key in writer.acknowledged if writer.call("GET", f"/api/events/{key}")[0] != 200]
        assert not lost, (len(lost), len(writer.acknowledged))
