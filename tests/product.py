"""The product's real programs for tests that kill them: PostgreSQL with its crash safety on, web server, worker."""

import contextlib
import fcntl
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
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from nousweb.runtime.postgres import EmbeddedServer
from tests.database import compressed_files_share, prepared_folder
from tests.memory.embedders import Endpoint, endpoint

PROJECT = Path(__file__).resolve().parent.parent
PATIENCE = 120
PREPARE = """
import os, django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
django.setup()
from django.core.management import call_command
call_command("migrate", "--verbosity", "0")
call_command("createagent", "ada", "--name", "Ada")
call_command("createtoken", "ada", "--persona", "actor")
"""
"""The first steps of an operator, in one program instead of three; it prints Ada's token."""


class Product:
    """The programs of one data folder, each of which a test may kill."""

    def __init__(self, folder: Path, embeddings: Endpoint, **variables: str) -> None:
        self.folder = folder
        self.embeddings = embeddings
        self.server = EmbeddedServer(folder, say=lambda line: None)
        self.token = prepared_cluster_copy(self.server)
        self.url = self.server.start()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        # Only commands know the owner of the tables: what serves and works must do without.
        self.environment = _environment(self.server) | {
            "NOUS_PORT": str(self.port),
            "NOUS_WEB_WORKERS": "1",
            "NOUS_EMBED_BASE_URL": embeddings.url,
            **variables,
        }
        (folder / "static").mkdir(exist_ok=True)
        compressed_files_share(folder)
        self.programs: list[subprocess.Popen[bytes]] = []

    def manage(self, *arguments: str) -> str:
        return self.run(str(PROJECT / "manage.py"), *arguments)

    def run(self, *arguments: str, patience: float = PATIENCE) -> str:
        environment = self.environment | {"DATABASE_OWNER_URL": self.server.owner_url}
        return _run(environment, *arguments, patience=patience)

    def start(self, *command: str, **variables: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "programs.log").open("ab")
        program = subprocess.Popen(
            tied(sys.executable, *command),
            cwd=PROJECT,
            env=self.environment | variables,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.programs.append(program)
        return program

    def web(self) -> subprocess.Popen[bytes]:
        # As `serve` starts it.
        return self.start("-m", "gunicorn", "-c", "python:nousweb.runtime.gunicorn", NOUS_DB_KEEP_SECONDS="600")

    def worker(self) -> subprocess.Popen[bytes]:
        return self.start(str(PROJECT / "manage.py"), "qcluster")

    def kill_database(self) -> None:
        """The machine's power goes, as far as PostgreSQL can tell."""
        pid = int((self.server.paths.cluster / "postmaster.pid").read_text().split()[0])
        # The first of them first, which would start again what it sees ending.
        for each in (pid, *self.server._processes()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        if self.server._process is not None:
            self.server._process.wait(PATIENCE)
            self.server._process = None

    def restart_database(self) -> None:
        """Like `pg_ctl restart -m immediate`: every connection is cut, nothing is written down first."""
        self._quit_database()
        self.server.start()

    def _quit_database(self) -> None:
        pid = int((self.server.paths.cluster / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        if self.server._process is not None:
            self.server._process.wait(PATIENCE)
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
        # A database that is deleted in a moment need not write everything down first.
        with contextlib.suppress(OSError):
            self._quit_database()
        self.server.destroy()


def _environment(server: EmbeddedServer) -> dict[str, str]:
    """Variables of a program of the product on the database of `server`, and nothing that the developer has set."""
    left_out = ("NOUS_", "DJANGO_SETTINGS_MODULE", "DATABASE_OWNER_URL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {
        "DATABASE_URL": server.url,
        "NOUS_DATA_DIR": str(server.data_dir),
        "NOUS_SECRET_KEY": "only-for-tests-" + "x" * 50,
        "NOUS_EMBEDDER": "openai",
        "NOUS_EMBED_MODEL": "test",
    }


def _run(environment: dict[str, str], *arguments: str, patience: float = PATIENCE) -> str:
    finished = subprocess.run(
        [sys.executable, *arguments], cwd=PROJECT, env=environment,
        capture_output=True, text=True, check=False, timeout=patience,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr[-2000:]
    return finished.stdout


def prepared_cluster_copy(server: EmbeddedServer) -> str:
    """Give `server`, which has no cluster yet, a copy of the run's prepared one; return Ada's token.

    Migrating is the dearest part of a product's start and always has the same result, so that one product of a run
    (of all its processes) does it for all.
    """
    folder = prepared_folder(Path(os.environ["TEST_RUN_FOLDER"]))
    said = folder / "token"
    prepared = EmbeddedServer(folder, say=lambda line: None)
    with (folder.parent / "prepared.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            prepared.start()
            try:
                environment = _environment(prepared) | {"DATABASE_OWNER_URL": prepared.owner_url}
                token = _run(environment | {"NOUS_EMBED_BASE_URL": "http://127.0.0.1:1/v1"}, "-c", PREPARE)
            finally:
                prepared.stop()
            said.write_text(token.strip())
    # Unlike shutil's, this copy keeps the owner, which PostgreSQL insists on.
    subprocess.run(["cp", "-a", prepared.paths.cluster, server.paths.cluster], check=True)
    return said.read_text()


@contextlib.contextmanager
def product_running(name: str, **variables: str) -> Iterator[Product]:
    """The programs on a folder of their own, beside an endpoint for embeddings; nothing of them is left at the end."""
    # Not pytest's own folder, which the account that runs PostgreSQL for root may not enter.
    folder = Path(tempfile.mkdtemp(prefix=f"nous-{name}-"))
    folder.chmod(0o755)
    with endpoint() as served:
        running = Product(folder, served, **variables)
        try:
            yield running
        finally:
            running.stop()
            shutil.rmtree(folder, ignore_errors=True)


def tied(*command: str) -> list[str]:
    """`command`, ended with this process, should it be killed before it can clean up."""
    return [sys.executable, "-m", "nousweb.runtime.parent_death_signal", str(os.getpid()), *command]


def kill(program: subprocess.Popen[bytes]) -> None:
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()


def until(
    what: str, true: Callable[[], bool], *, patience: float = PATIENCE, state: Callable[[], object] = lambda: ""
) -> None:
    """Wait until `true`, at most `patience` seconds; a failure shows the `state` at its end."""
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, f"still not: {what} {state()}"
        time.sleep(0.2)
