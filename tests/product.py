"""The product's real programs for tests that kill them: PostgreSQL with its crash safety on, web server, worker."""

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
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from nousweb.runtime.postgres import EmbeddedServer
from tests.memory.embedders import endpoint

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
"""What an operator does first, in one program instead of three."""


class Product:
    """The programs of one data folder, each of which a test may kill."""

    def __init__(self, folder: Path, embeddings_url: str, **variables: str) -> None:
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
            **variables,
        }
        # Only commands know the owner of the tables: what serves and works must do without.
        for name in ("DJANGO_SETTINGS_MODULE", "DATABASE_OWNER_URL"):
            self.environment.pop(name, None)
        (folder / "static").mkdir(exist_ok=True)
        self.programs: list[subprocess.Popen[bytes]] = []
        try:
            self.token = self.run("-c", PREPARE).strip()
        except BaseException:
            # Nobody has it yet who could stop it.
            self.server.destroy()
            raise

    def manage(self, *arguments: str) -> str:
        return self.run(str(PROJECT / "manage.py"), *arguments)

    def run(self, *arguments: str) -> str:
        finished = subprocess.run(
            [sys.executable, *arguments], cwd=PROJECT,
            env=self.environment | {"DATABASE_OWNER_URL": self.server.owner_url},
            capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        assert finished.returncode == 0, finished.stderr[-2000:]
        return finished.stdout

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "programs.log").open("ab")
        program = subprocess.Popen(
            tied(sys.executable, *command),
            cwd=PROJECT,
            env=self.environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.programs.append(program)
        return program

    def web(self) -> subprocess.Popen[bytes]:
        return self.start("-m", "gunicorn", "-c", "python:nousweb.runtime.gunicorn")

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
        pid = int((self.server.paths.cluster / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        if self.server._process is not None:
            self.server._process.wait(PATIENCE)
            self.server._process = None
        self.server.start()

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


@contextlib.contextmanager
def product_running(name: str, **variables: str) -> Iterator[Product]:
    """The programs on a folder of their own, beside an endpoint for embeddings; nothing of them is left at the end."""
    # Not pytest's own folder, which the account that runs PostgreSQL for root may not enter.
    folder = Path(tempfile.mkdtemp(prefix=f"nous-{name}-"))
    folder.chmod(0o755)
    with endpoint() as served:
        running = Product(folder, served.url, **variables)
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


def until(what: str, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.2)
