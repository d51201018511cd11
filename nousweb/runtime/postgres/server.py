"""One embedded PostgreSQL server: make its cluster, start it, stop it, and guard its disk."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from nousweb.database.privileges import privileges_grant
from nousweb.runtime.postgres.paths import MAJOR_VERSION, SOCKET_NAME, PostgresProblem, ServerPaths, place

SWITCH = "default_transaction_read_only"
SWITCHED = re.compile(rb"(?m)^" + SWITCH.encode() + rb" = '(\w+)'[ ]*$")


class DiskGuard:
    """The guard of one server: changes are refused while less than `reserve` bytes are free on its disk."""

    def __init__(self, paths: ServerPaths, reserve: int) -> None:
        self._paths = paths
        self._reserve = reserve
        self.refusing = False

    def check(self) -> bool:
        """Compare the free space with the reserve; return whether that changed what the database does.

        A half more than the reserve has to be free before changes are accepted again. Raises OSError.
        """
        free = shutil.disk_usage(self._paths.cluster).free
        refuse = free < (self._reserve * 3 // 2 if self.refusing else self._reserve)
        if refuse == self.refusing:
            return False
        switch_set(self._paths, refuse)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((self._paths.cluster / "postmaster.pid").read_text().split()[0]), signal.SIGHUP)
        self.refusing = refuse
        return True


def switch_set(paths: ServerPaths, refuse: bool) -> None:
    """Write into the cluster's settings whether sessions begin read-only. PostgreSQL reads it at a start or SIGHUP.

    The line is overwritten in place, which needs no free space where its file system allows that; ALTER SYSTEM would
    write a new file.
    """
    file = Path(paths.cluster) / "postgresql.auto.conf"
    before = file.read_bytes()
    line = f"{SWITCH} = '{'on' if refuse else 'off'}'".encode().ljust(len(SWITCH) + len(" = 'off'"))
    after = SWITCHED.sub(line, before) if SWITCHED.search(before) else before.rstrip(b"\n") + b"\n" + line + b"\n"
    if after != before:
        with file.open("r+b") as settings:
            settings.write(after)
            settings.truncate()


SUPERUSER = "postgres"
# The role of the running product: it reads and writes rows, and owns nothing.
ROLE = DATABASE = "nous"
# The role of migrations. It owns the database and nothing else, so that a hole in a migration is not a hole
# in the server: a superuser could run programs through COPY.
OWNER = "nous_owner"
START_SECONDS = 300.0
STOP_SECONDS = 60
BYTES_NEEDED = 200 * 1024 * 1024
LOG_BYTES_KEPT = 5 * 1024 * 1024

SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "256MB",
    "effective_cache_size": "1GB",
    "max_wal_size": "1GB",
    "random_page_cost": "1.1",
    # Compiling queries costs more than these short ones take.
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    # Statements and the values in them are memories, which an erasure does not find in a log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}
UNSAFE_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
}


def say_on_stderr(line: str) -> None:
    """Show a line of progress without touching stdout, which belongs to the command's own output."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class EmbeddedServer:
    """The server of one data folder. `fast_unsafe` gives up surviving a crash, for throw-away clusters."""

    def __init__(
        self, data_dir: Path, *, fast_unsafe: bool = False, say: Callable[[str], None] = say_on_stderr
    ) -> None:
        self.data_dir = data_dir
        self.fast_unsafe = fast_unsafe
        self._say = say
        self._paths: ServerPaths | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def paths(self) -> ServerPaths:
        if self._paths is None:
            self._paths = place(self.data_dir)
        return self._paths

    @property
    def url(self) -> str:
        """The address of the application's database for the running product, as libpq and Django's settings read it."""
        return self._url_of(ROLE)

    @property
    def owner_url(self) -> str:
        """The same for the owner of the tables, which migrates them."""
        return self._url_of(OWNER)

    def _url_of(self, role: str) -> str:
        return f"postgresql://{role}@/{DATABASE}?host={quote(str(self.paths.socket_dir), safe='')}&port=5432"

    def start(self) -> str:
        """Make sure that the server runs and has the application's database; return the product's URL.

        The caller keeps others from starting or stopping the same server at the same time.
        Raises PostgresProblem.
        """
        try:
            if not self._answers():
                self._check_space()
                self._make_cluster()
                switch_set(self.paths, refuse=False)
                self._drop_stale_locks()
                self._launch()
            with self._connected() as connection:
                self._make_database(connection)
        except (OSError, psycopg.Error) as error:
            raise PostgresProblem(f"The embedded PostgreSQL cannot be used: {_one_line(error)}.") from error
        return self.url

    def start_again(self) -> None:
        """Start a server that has died, as it was; on a full disk that may fail. Raises PostgresProblem."""
        try:
            if not self._answers():
                self._drop_stale_locks()
                self._launch()
        except (OSError, psycopg.Error) as error:
            raise PostgresProblem(f"The embedded PostgreSQL cannot be used: {_one_line(error)}.") from error

    def stop(self) -> None:
        """Stop the server, closing its connections; do nothing when it does not run."""
        if self._process is not None and self._process.poll() is not None:
            # Until it was asked for, a child that has died looks to pg_ctl like one that does not end.
            self._process = None
        if (self.paths.cluster / "postmaster.pid").exists():
            for mode in ("fast", "immediate"):
                finished = self._run("pg_ctl", "-D", self.paths.cluster, "-m", mode, "-w", "-t", STOP_SECONDS, "stop")
                if finished.returncode == 0 or not self.running():
                    break
        if self._process is not None:
            self._process.wait(STOP_SECONDS)
            self._process = None

    def destroy(self) -> None:
        """Stop the server and delete its cluster."""
        self.stop()
        paths = self.paths
        shutil.rmtree(paths.home, ignore_errors=True)
        shutil.rmtree(paths.socket_dir, ignore_errors=True)
        if paths.home.parent != self.data_dir:
            shutil.rmtree(paths.home.parent, ignore_errors=True)

    def _run(self, program: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
        command = [str(self.paths.programs / "bin" / program), *map(str, arguments)]
        return subprocess.run(command, check=False, capture_output=True, **self.paths.as_account())

    def running(self) -> bool:
        """Whether the server takes connections."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(os.fsencode(self.paths.socket_dir / SOCKET_NAME))
            except (FileNotFoundError, ConnectionRefusedError):
                return False
            return True

    def _answers(self) -> bool:
        """Whether a server runs and takes a connection, not only listens as the last child of a killed one does for a
        moment.

        Raises psycopg.OperationalError if it goes on listening and refuses the connection.
        """
        while self.running():
            try:
                self._connected().close()
            except psycopg.OperationalError:
                if self.running():
                    raise
            else:
                return True
        return False

    def _check_space(self) -> None:
        free = shutil.disk_usage(self.paths.home).free
        if free < BYTES_NEEDED:
            raise PostgresProblem(
                f"Only {free // 1024**2} MB are free in {self.paths.home}: the database needs at least "
                f"{BYTES_NEEDED // 1024**2} MB."
            )

    def _make_cluster(self) -> None:
        paths = self.paths
        version = paths.cluster / "PG_VERSION"
        if version.exists():
            found = version.read_text().strip()
            if found != str(MAJOR_VERSION):
                raise PostgresProblem(
                    f"The database in {paths.cluster} was made by PostgreSQL {found} and this is "
                    f"{MAJOR_VERSION}: dump and restore it as docs/operations.md describes."
                )
            return
        self._say("Making the database (once) ...")
        # Built beside its place and renamed, so that an interrupted run leaves nothing that looks finished.
        unfinished = paths.home / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        finished = self._run(
            "initdb",
            *("-D", unfinished, "-U", SUPERUSER, "--encoding=UTF8"),
            # The built-in provider sorts the same everywhere; the C library's order changes with its version.
            *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            # Who can reach the socket is decided by its private folder (the owner and root). A password would
            # have to lie in a file that the very same people can read.
            *("--auth=trust", *(["--no-sync"] if self.fast_unsafe else [])),
        )
        if finished.returncode:
            reason = _one_line(finished.stderr.decode(errors="replace").strip().rpartition("error:")[2] or "no reason")
            shutil.rmtree(unfinished, ignore_errors=True)
            raise PostgresProblem(f"The database in {paths.home} could not be made: {reason}.")
        unfinished.rename(paths.cluster)

    def _drop_stale_locks(self) -> None:
        """Remove lock files whose process number now belongs to a stranger.

        PostgreSQL itself removes one whose process is gone. After a restart of the machine or container the
        number is often in use again by another program of the same user, and it would never start.
        """
        paths = self.paths
        for lock in (paths.cluster / "postmaster.pid", paths.socket_dir / f"{SOCKET_NAME}.lock"):
            try:
                pid = int(lock.read_text().split("\n", 1)[0])
            except FileNotFoundError:
                continue
            except ValueError:
                pid = 0
            if sys.platform == "linux" and (pid == 0 or Path(f"/proc/{pid}").exists()) and not self._processes():
                lock.unlink(missing_ok=True)

    def _processes(self) -> list[int]:
        """Processes of this server: each of them works in the folder of the cluster."""
        cluster = os.path.realpath(self.paths.cluster)
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if os.readlink(entry / "cwd") == cluster:
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def _launch(self) -> None:
        # Not through `pg_ctl start`: it builds a shell command, which a quote or a dollar in the path breaks.
        paths = self.paths
        settings = SETTINGS | (UNSAFE_SETTINGS if self.fast_unsafe else {})
        settings["unix_socket_directories"] = '"{}"'.format(str(paths.socket_dir).replace('"', '""'))
        if Path("/dev/shm").is_dir() and shutil.disk_usage("/dev/shm").total < 512 * 1024**2:  # noqa: S108
            # The 64 MB that containers get are too few for a parallel build of a vector index.
            settings["dynamic_shared_memory_type"] = "mmap"
        command = [str(paths.programs / "bin" / "postgres"), "-D", str(paths.cluster)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        if paths.log.exists() and paths.log.stat().st_size > LOG_BYTES_KEPT:
            paths.log.rename(paths.log.with_name("log.1"))
        for attempt in range(20):
            with paths.log.open("ab") as log:
                paths.give(paths.log)
                begin = log.tell()
                self._process = subprocess.Popen(command, stdout=log, stderr=log, **paths.as_account())
            if self._wait_until_ready(self._process):
                return
            said = _tail(paths.log, begin)
            # The children of a server that was killed need a moment to notice.
            if "still in use" not in said and "already exists" not in said:
                break
            time.sleep(0.1 * (attempt + 1))
        raise PostgresProblem(
            f"The embedded PostgreSQL did not start: {_one_line(said or 'it said nothing')} (log: {paths.log})."
        )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the server's own word that it is ready, which may take minutes after a crash."""
        deadline = time.monotonic() + START_SECONDS
        status = self.paths.cluster / "postmaster.pid"
        while process.poll() is None:
            try:
                lines = status.read_text().split("\n")
            except FileNotFoundError:
                lines = []
            if len(lines) > 7 and lines[0] == str(process.pid) and lines[7].strip() == "ready":
                return True
            if time.monotonic() > deadline:
                process.terminate()
                raise PostgresProblem(
                    f"The embedded PostgreSQL was not ready after {START_SECONDS:.0f} s (log: {self.paths.log})."
                )
            time.sleep(0.02)
        return False

    def _connected(self, database: str = "postgres") -> psycopg.Connection:
        """Connect as superuser, waiting for a server that is still starting or recovering."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return psycopg.connect(
                    host=str(self.paths.socket_dir),
                    port=5432,
                    user=SUPERUSER,
                    dbname=database,
                    connect_timeout=10,
                    autocommit=True,
                    # Commands, which may be those that make room, are no reason to refuse.
                    options="-c default_transaction_read_only=off",
                )
            except psycopg.OperationalError as error:
                if "system is" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _make_database(self, connection: psycopg.Connection) -> None:
        for role in (OWNER, ROLE):
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                rights = "LOGIN CREATEDB" if self.fast_unsafe and role == OWNER else "LOGIN"
                connection.execute(sql.SQL("CREATE ROLE {} " + rights).format(sql.Identifier(role)))
                if self.fast_unsafe and role == ROLE:
                    # So that the tests' connection, which is the owner's, can step down to the product's rights.
                    connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(ROLE), sql.Identifier(OWNER)))
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
            # Only a superuser may add pgvector, so it goes into the template of every later database.
            with self._connected("template1") as template:
                template.execute("CREATE EXTENSION IF NOT EXISTS vector")
            names = sql.Identifier(DATABASE), sql.Identifier(OWNER)
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(*names))
        with self._connected(DATABASE) as inside:
            privileges_grant(inside, ROLE)


def _tail(log: Path, begin: int) -> str:
    """The last error in the log since byte `begin`, with its hint, or its last line."""
    lines = [line.strip() for line in log.read_bytes()[begin:].decode(errors="replace").splitlines() if line.strip()]
    for line in reversed(lines):
        if "FATAL:" in line or "PANIC:" in line:
            return line.partition("FATAL:")[2].strip() or line
    return lines[-1] if lines else ""


def _one_line(error: object) -> str:
    return " ".join(str(error).split()).rstrip(".")
