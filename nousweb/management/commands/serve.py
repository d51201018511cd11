"""`manage.py serve`: the whole product, in the foreground."""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command, get_commands
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from memory.search.vector_indexes import vector_indexes_keep
from nousweb.database.disk_space import MEBIBYTE
from nousweb.database.postgres_roles import as_owner, product_role_weakness
from nousweb.demo.demo_access import DemoInProduction, demo_check, demo_wanted
from nousweb.lib.background import repeat
from nousweb.lib.env import BadSetting, whole
from nousweb.runtime.bootstrap import SetupProblem, check_port
from nousweb.runtime.postgres import DatabaseGone, PostgresProblem, disk_guard, revive
from nousweb.runtime.postgres.server import DiskGuard
from nousweb.runtime.supervisor import Child, LaunchProblem, Supervisor, answers

INDEXES_EVERY = timedelta(minutes=1)


class Command(BaseCommand):
    help = "Migrates the database, then runs the web server and the background worker until Ctrl-C."
    # `migrate` runs the checks.
    requires_system_checks: list[str] = []
    _guard: DiskGuard | None = None

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--demo", action="store_true", help="Load demo data when there is no agent yet.")
        parser.add_argument("--port", type=_port, help="TCP port; NOUS_PORT by default.")

    def handle(self, *args: Any, demo: bool, port: int | None, **options: Any) -> None:
        settings.PORT = port or settings.PORT
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        try:
            if demo:
                demo_check()
            self._run(demo)
        except KeyboardInterrupt:
            pass
        except (DemoInProduction, LaunchProblem, SetupProblem, BadSetting) as problem:
            raise CommandError(str(problem)) from problem
        self._say("Stopped.")

    def _run(self, demo: bool) -> None:
        check_port(settings.HOST, settings.PORT)
        # Held until this process ends, however it ends.
        alone = _data_folder_taken()
        self._say("Updating the database ...")
        call_command("migrate", interactive=False, verbosity=0)
        # The web server and the worker do not need the owner of the tables.
        os.environ.pop("DATABASE_OWNER_URL", None)
        if weakness := product_role_weakness():
            self._warn(f"{weakness} See docs/operations.md, 'A PostgreSQL of your own'.")
        # The web server serves this folder too, and says so loudly when it is missing.
        Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
        if demo and demo_wanted():
            self._say("Loading the demo data ...")
            # In a process of its own: the embedding model stays in memory, and this one only waits from here on.
            if subprocess.run([sys.executable, "-m", "nousweb", "loaddemo"], check=False).returncode:
                raise LaunchProblem("The demo data could not be loaded.")
        # The children have connections of their own; the supervisor needs none while it waits.
        connections.close_all()
        self._say("Starting the web server and the background worker ...")
        self._guard = disk_guard(settings.DISK_FREE_MB * MEBIBYTE // 2)
        supervisor = Supervisor(_children(), self._warn, self._tend_database)
        probe = f"http://{_bracketed(_reachable(settings.HOST))}:{settings.PORT}/readyz"
        # A host name that ALLOWED_HOSTS accepts.
        own_name = next((name.lstrip(".") for name in settings.ALLOWED_HOSTS if name != "*"), "localhost")
        if settings.DATABASE_OWNER is not None:
            repeat(indexes_keep, name="index-keeper", pause=lambda: INDEXES_EVERY)
        try:
            supervisor.run(
                ready=lambda: answers(probe, own_name),
                on_ready=lambda: self._announce(demo),
            )
        finally:
            _metrics_removed()
            os.close(alone)

    def _announce(self, demo: bool) -> None:
        self._say(f"\nNous Web is at {console_address()}  (Ctrl-C stops it)")
        if demo and "demoinfo" in get_commands():
            call_command("demoinfo")
            connections.close_all()
        self.stdout.flush()

    def _tend_database(self) -> None:
        """Start a database server that has died, as often as it takes, and spare a disk that is nearly full."""
        try:
            if self._guard and self._guard.check():
                self._warn(
                    "The disk of the database is nearly full: changes are refused until space is freed."
                    if self._guard.refusing
                    else "The disk of the database has space again: changes are accepted."
                )
        except OSError as error:
            self._warn(f"The disk of the database cannot be checked: {error}.")
        try:
            if revive():
                self._warn("The database server had died and was started again.")
        except DatabaseGone as problem:
            raise LaunchProblem(str(problem)) from problem
        except PostgresProblem as problem:
            self._warn(f"{problem} It is tried again.")

    def _warn(self, line: str) -> None:
        # What it is written to may be on the full disk that it tells of.
        with contextlib.suppress(OSError):
            self.stderr.write(line)
            self.stderr.flush()

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def indexes_keep() -> None:
    """Make and drop the vector indexes of large collections, which only the owner of the tables may do."""
    try:
        with as_owner():
            vector_indexes_keep()
    finally:
        connections.close_all()


def console_address() -> str:
    """The address at which a browser on this machine finds the console."""
    host = _reachable(settings.HOST)
    return f"http://{'localhost' if host in ('127.0.0.1', '::1') else _bracketed(host)}:{settings.PORT}/"


def _port(raw: str) -> int:
    try:
        return whole(1, 65535)(raw)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def _data_folder_taken() -> int:
    """Take the data folder for this `serve`: two would mix up their metrics. Returns the lock; raises CommandError."""
    folder = settings.DATA_DIR
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / "serve.lock", os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise CommandError(
            f"Another `serve` runs on the data folder {folder}: stop it, or choose another folder with NOUS_DATA_DIR."
        ) from error
    return lock


def _metrics_removed() -> Path:
    """Delete the figures of the last run; return the place of the next ones."""
    metrics: Path = settings.DATA_DIR / "metrics"
    shutil.rmtree(metrics.resolve(), ignore_errors=True)
    if metrics.is_symlink():
        metrics.unlink()
    return metrics


def _children() -> list[Child]:
    metrics = _metrics_removed()
    try:
        if not metrics.exists() and Path("/dev/shm").is_dir():  # noqa: S108
            # In memory: the system kills a process that writes to a mapped file when the disk is full.
            metrics.symlink_to(tempfile.mkdtemp(prefix="nous-metrics-", dir="/dev/shm"))
        metrics.mkdir(parents=True, exist_ok=True)
        # A file that could not be removed belongs to another user, and so will the next one.
        if any(metrics.iterdir()) or not os.access(metrics, os.W_OK):
            raise PermissionError
    except OSError as error:
        raise LaunchProblem(f"The folder {metrics} cannot be emptied: delete it and try again.") from error
    shared = {"NOUS_PORT": str(settings.PORT), "PROMETHEUS_MULTIPROC_DIR": str(metrics)}
    keep = os.environ.get("NOUS_DB_KEEP_SECONDS") or "600"
    return [
        Child(
            "web server",
            [sys.executable, "-m", "gunicorn", "-c", "python:nousweb.runtime.gunicorn"],
            vital=True,
            environment=shared | {"NOUS_DB_KEEP_SECONDS": keep},
        ),
        Child(
            "background worker",
            [sys.executable, "-m", "nousweb", "qcluster"],
            vital=False,
            environment=shared | {"NOUS_DB_KEEP_SECONDS": ""},
        ),
    ]


def _reachable(host: str) -> str:
    """The address to call: the local address, if `host` means all addresses."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
