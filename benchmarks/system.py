"""A throw-away Nous Web for measurements: its own PostgreSQL, web server and worker, in a temporary folder."""

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
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = PROJECT / "benchmarks" / "results"
KEPT = ("NOUS_EMBED",)
"""Settings of whoever measures that the system takes over."""
REUSED_SECONDS = 2.0
"""How long a connection may have been idle to be used for a write; well below the server's own patience."""


class Client:
    """One keep-alive connection to the API, as an agent's token."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self.token = token
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection: http.client.HTTPConnection | None = None
        self._used = 0.0

    def again(self) -> "Client":
        """Another connection as the same agent."""
        return Client(self._port, self.token)

    def get(self, path: str, **query: Any) -> Any:
        return self._call("GET", f"/api{path}?{urllib.parse.urlencode(query, doseq=True)}")

    def post(self, path: str, body: Any) -> Any:
        return self._call("POST", f"/api{path}", json.dumps(body).encode())

    def put(self, path: str, body: Any) -> Any:
        return self._call("PUT", f"/api{path}", json.dumps(body).encode())

    def _call(self, method: str, path: str, body: bytes | None = None) -> Any:
        for attempt in (1, 2):
            # The server closes idle connections, and a write must not be sent twice.
            fresh = time.monotonic() - self._used < REUSED_SECONDS
            if self._connection is None or not (method == "GET" or fresh):
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
            try:
                self._connection.request(method, path, body, self._headers)
                response = self._connection.getresponse()
                answer = response.read()
                self._used = time.monotonic()
                break
            except (http.client.HTTPException, ConnectionError):
                self._connection = None
                if attempt == 2 or method != "GET":
                    raise
        if response.status >= 300:
            raise RuntimeError(f"{method} {path[:80]} answered {response.status}: {answer[:500]!r}")
        return json.loads(answer)


class System:
    """A running Nous Web. Django is set up in this process too, for what has no endpoint."""

    def __init__(
        self, port: int, folder: Path, web: subprocess.Popen[bytes], worker: subprocess.Popen[bytes] | None = None
    ) -> None:
        self.port = port
        self.folder = folder
        self.web = web
        self.worker = worker

    def agent(self, slug: str, *, prompt: str = "You are an agent of a benchmark.") -> Client:
        """A new agent's actor, over HTTP; a squire, whose profile searches all layers of memory."""
        from identity.principal import Principal
        from identity.services.agents import agent_create

        agent_create(slug=slug, name=slug, prompt=prompt, by=Principal.of_system("benchmark"))
        return Client(self.port, self.token(slug))

    def token(self, slug: str) -> str:
        """A new token of an agent's actor."""
        from identity.models import Agent
        from identity.principal import Principal
        from identity.services.tokens import token_create

        agent = Agent.objects.get(slug=slug)
        by = Principal.of_system("benchmark")
        return token_create(agent=agent, persona="actor", name="benchmark", by=by)[1]

    def embed_all(self) -> int:
        """Do the worker's part of indexing here and now; returns how many rows became ready."""
        from memory.services.search_index.row_embedding import embed_pending_rows

        made = 0
        while done := embed_pending_rows(seconds=3600):
            made += done
        collections_index()
        return made

    def memory_of_web(self) -> int:
        """Resident bytes of the web server's processes."""
        return _memory_of_group(self.web.pid)

    def memory_of_worker(self) -> int:
        """Resident bytes of the worker's processes; 0 without one."""
        return _memory_of_group(self.worker.pid) if self.worker else 0


def collections_index(clean: str | None = None) -> None:
    """Do at once what the worker and the keeper of indexes do for large collections; first clean up the table `clean`.

    "" cleans up every table.
    """
    from django.db import connection

    from memory.search.query_word_counts import statistics_refresh
    from memory.search.vector_indexes import vector_indexes_keep
    from nousweb.database.postgres_roles import as_owner

    with as_owner():
        if clean is not None:
            with connection.cursor() as cursor:
                cursor.execute(f"VACUUM ANALYZE {clean}")
        statistics_refresh()
        vector_indexes_keep()


def _memory_of_group(group: int) -> int:
    total = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if os.getpgid(int(entry.name)) == group:
                total += int((entry / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def tied(*command: str) -> list[str]:
    """`command`, ended with this process, should it be killed before it can clean up."""
    return [sys.executable, "-m", "nousweb.runtime.parent_death_signal", str(os.getpid()), *command]


@contextlib.contextmanager
def _ended_cleanly() -> Iterator[None]:
    """A request to end runs the clean-up, as Ctrl-C does; another one during the clean-up is not heard."""

    def end(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _guarded(folder: Path) -> Iterator[None]:
    """Let another process clean `folder` up, PostgreSQL included, should this one be killed outright."""
    guard = subprocess.Popen(
        tied(sys.executable, "-m", "benchmarks.cleanup_guard", str(folder)),
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert guard.stdout is not None
    guard.stdout.readline()
    try:
        yield
    finally:
        guard.kill()
        guard.communicate()


@contextlib.contextmanager
def system(
    *,
    web_workers: int = 1,
    threads: int = 4,
    log_level: str = "WARNING",
    worker: bool = False,
    prepare: Callable[[Path], object] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[System]:
    """Start everything, and remove it at the end. BENCH_DATABASE_URL names an empty database to use instead.

    `prepare` is called with the server's data folder before its first start; `settings` are more of its environment.
    Nothing stays when this process is told to end, or killed.
    """
    folder = Path(tempfile.mkdtemp(prefix="nous-bench-"))
    folder.chmod(0o755)
    with _ended_cleanly(), _guarded(folder):
        if prepare is not None:
            prepare(folder)
        with _system(folder, web_workers, threads, log_level, worker, settings or {}) as running:
            yield running


@contextlib.contextmanager
def _system(
    folder: Path, web_workers: int, threads: int, log_level: str, worker: bool, settings: Mapping[str, str]
) -> Iterator[System]:
    sys.path.insert(0, str(PROJECT))
    from nousweb.runtime.postgres import EmbeddedServer

    server = None if os.environ.get("BENCH_DATABASE_URL") else EmbeddedServer(folder, say=lambda line: None)
    web = background = None
    try:
        url = server.start() if server else os.environ["BENCH_DATABASE_URL"]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        metrics = folder / "metrics"
        metrics.mkdir()
        (folder / "static").mkdir()
        for name in [name for name in os.environ if name.startswith("NOUS_") and not name.startswith(KEPT)]:
            del os.environ[name]
        os.environ |= {
            **settings,
            "DATABASE_URL": url,
            # Empty with a server of one's own, which is used with one role.
            "DATABASE_OWNER_URL": server.owner_url if server else "",
            "NOUS_DATA_DIR": str(folder),
            "NOUS_PORT": str(port),
            "NOUS_LOG_LEVEL": log_level,
            "NOUS_WEB_WORKERS": str(web_workers),
            "NOUS_WEB_THREADS": str(threads),
            "PROMETHEUS_MULTIPROC_DIR": str(metrics),
            "DJANGO_SETTINGS_MODULE": "nousweb.settings",
        }
        import django
        from django.core.management import call_command
        from django.db import connections

        django.setup()
        call_command("migrate", verbosity=0, interactive=False)
        web = subprocess.Popen(
            tied(sys.executable, "-m", "gunicorn", "-c", "python:nousweb.runtime.gunicorn"),
            cwd=PROJECT,
            env=os.environ | {"NOUS_DB_KEEP_SECONDS": "600", "DATABASE_OWNER_URL": ""},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "web.log").open("wb"),
        )
        if worker:
            background = subprocess.Popen(
                tied(sys.executable, "manage.py", "qcluster"),
                cwd=PROJECT,
                env=os.environ | {"DATABASE_OWNER_URL": ""},
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=(folder / "worker.log").open("wb"),
            )
        _wait(port, web, folder)
        yield System(port, folder, web, background)
        connections.close_all()
    finally:
        for process in (web, background):
            if process is not None:
                process.terminate()
                process.wait(30)
        if server is not None:
            server.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(port: int, web: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and web.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    raise RuntimeError(f"The web server did not start: {(folder / 'web.log').read_text()[-2000:]}")
