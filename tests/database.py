"""pytest plugin: a throw-away PostgreSQL for the whole run, created before Django reads its settings.

TEST_DATABASE_URL names a server to use instead; its user needs the privilege to create databases. TEST_CITUS_URL names
a database of a Citus cluster instead, beside which each process makes one of its own (tests/cluster.py). All files of
the run go into a temporary folder, which is removed at its end. Folders of killed runs are removed by the next run.

Tests have no more privileges in it than the running product: the owner of the tables creates and migrates the test
database, and then its connections step down to the product's role (`SET ROLE`). Tests change tables themselves through
`as_the_owner`. A given server whose user may not create roles is used with one role.
"""

import atexit
import contextlib
import fcntl
import gc
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from psycopg import sql

from nousweb.runtime.postgres import EmbeddedServer, PostgresProblem, check_requirements
from tests.cluster import CITUS_URL, PROCESS, ClusterDatabase, exceptions_mark

# The first of ours that is imported: while everything is imported there is nothing to collect.
gc.disable()
# The interpreter would look for garbage among everything once more before it ends.
atexit.register(gc.freeze)

FOLDER_PREFIX = "nous-test-"
SECRET_KEY = "only-for-tests-" + "x" * 50
MIGRATED = "migrated"
"""Database of a copied cluster of which the test database is a copy."""


DATABASE = pytest.StashKey["ThrowAwayDatabase"]()
COMPILE_LOCK = pytest.StashKey[int]()
"""Held by the process that compiles, until it has collected the tests."""


class ThrowAwayDatabase:
    """The folder and, unless a URL was given, the server of one test process.

    A process that only distributes tests uses no server; it creates the template for the servers of the others.
    """

    def __init__(self, given_url: str, *, asks: bool) -> None:
        _remove_abandoned()
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        # The account that runs PostgreSQL for root has to pass through.
        self.folder.chmod(0o755)
        # Held until the end of the process: an unlocked folder is an abandoned one.
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._server: EmbeddedServer | None = None
        self._migrated: MigratedCluster | None = None
        self._role: tuple[str, str] | None = None
        self._of_cluster: ClusterDatabase | None = None
        self._pid = os.getpid()
        # The server of a process that was handed tests out begins with a copy, when it has collected them.
        self.copied = not given_url and "PYTEST_XDIST_WORKER" in os.environ
        if given_url and given_url == CITUS_URL:
            # With one role, as the product has there.
            if asks:
                self._of_cluster = ClusterDatabase(given_url)
            self.owner_url = self.url = self._of_cluster.url if self._of_cluster else given_url
        elif given_url:
            check_requirements(given_url)
            self.owner_url = given_url
            self._role = _role_make(given_url) if asks else None
            self.url = _as_user(given_url, *self._role) if self._role else given_url
        else:
            self._server = EmbeddedServer(self.folder, fast_unsafe=True, say=lambda line: None)
            self.owner_url = self._server.owner_url
            self.url = self._server.url
            if not asks:
                self._migrated = MigratedCluster(self.folder)
                self._migrated.make()
            elif not self.copied:
                self._server.start()

    def start_copied(self) -> None:
        """Start the server that begins with a copy, once there is a cluster to copy; do nothing with any other."""
        if self.copied and self._server is not None:
            MigratedCluster(Path(os.environ["TEST_RUN_FOLDER"])).copy_to(self._server)
            self._server.start()

    def remove(self) -> None:
        """Stop the server and delete the folder; a forked child does neither."""
        if os.getpid() == self._pid:
            if self._migrated is not None:
                self._migrated.wait()
            if self._server is not None:
                self._server.destroy()
            if self._of_cluster is not None:
                self._of_cluster.remove()
            if self._role is not None:
                # Kept where a test database was kept, in which it has rights.
                with contextlib.suppress(psycopg.Error), psycopg.connect(self.owner_url) as connection:
                    connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(self._role[0])))
            _folder_remove(self.folder)


class MigratedCluster:
    """The stopped server of which every server of a run in several processes begins with a copy.

    It has the database MIGRATED, as `migrate` leaves it. It is made while the processes import and collect.
    """

    def __init__(self, run_folder: Path) -> None:
        self.folder = run_folder / "migrated"
        self._lock = run_folder / "migrated.lock"
        self._maker: threading.Thread | None = None

    def exists(self) -> bool:
        """Whether this run has one, be it not finished yet."""
        return self.folder.exists()

    def make(self) -> None:
        """Begin to create it; users wait until it is ready."""
        self.folder.mkdir()
        self.folder.chmod(0o755)
        lock = self._lock.open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._maker = threading.Thread(target=self._make, args=[lock])
        self._maker.start()

    def wait(self) -> None:
        """Wait until the creation has ended."""
        if self._maker is not None:
            self._maker.join()

    def copy_to(self, server: EmbeddedServer) -> None:
        """Give `server`, which has no cluster yet, a copy of this one."""
        with self._lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
        if not (self.folder / "done").exists():
            raise PostgresProblem(f"The cluster of the tests was not made: {(self.folder / 'problem').read_text()}")
        cluster_copy(EmbeddedServer(self.folder), server)

    def _make(self, lock: TextIO) -> None:
        server = EmbeddedServer(self.folder, fast_unsafe=True, say=lambda line: None)
        try:
            server.start()
            try:
                with psycopg.connect(server.owner_url, autocommit=True) as connection:
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(MIGRATED)))
                kept = {name: value for name, value in os.environ.items() if not name.startswith("NOUS_")}
                subprocess.run(
                    [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
                    cwd=Path(__file__).parent.parent,
                    env=kept
                    | {
                        "DATABASE_URL": _of_database(server.url, MIGRATED),
                        "DATABASE_OWNER_URL": _of_database(server.owner_url, MIGRATED),
                        "NOUS_DATA_DIR": str(self.folder),
                        "NOUS_SECRET_KEY": SECRET_KEY,
                    },
                    check=True,
                    capture_output=True,
                    text=True,
                )
            finally:
                server.stop()
            (self.folder / "done").touch()
        except (PostgresProblem, psycopg.Error, subprocess.CalledProcessError) as problem:
            (self.folder / "problem").write_text(f"{problem}\n{getattr(problem, 'stderr', '')}")
        finally:
            lock.close()


def cluster_copy(source: EmbeddedServer, target: EmbeddedServer) -> None:
    """Give `target`, which has no cluster yet, a copy of that of `source`, which does not run."""
    # Unlike shutil's, this copy keeps the owner, which PostgreSQL insists on.
    subprocess.run(["cp", "-a", source.paths.cluster, target.paths.cluster], check=True)


def prepared_folder(run_folder: Path) -> Path:
    """Data folder of the stopped server of which every real product of this run begins with a copy."""
    return run_folder / "prepared"


def _folder_remove(folder: Path) -> None:
    for made in (prepared_folder(folder), folder / "migrated"):
        if made.exists():
            # Its cluster may lie elsewhere.
            EmbeddedServer(made).destroy()
    shutil.rmtree(folder, ignore_errors=True)


def _role_make(given_url: str) -> tuple[str, str] | None:
    """Make a role for the product on a given server; its name and password, or None where the user may not."""
    name, password = f"nous_test_{secrets.token_hex(4)}", secrets.token_hex(16)
    role = sql.Identifier(name)
    try:
        with psycopg.connect(given_url) as connection:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(password)))
            connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(role))
            connection.execute(sql.SQL("SET ROLE {}").format(role))
    except psycopg.Error:
        return None
    return name, password


def _as_user(url: str, user: str, password: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{user}:{quote(password)}@{parts.netloc.rpartition('@')[2]}").geturl()


def _of_database(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        try:
            lock = os.open(folder / "lock", os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            EmbeddedServer(folder).destroy()
            _folder_remove(folder)
        except (OSError, PostgresProblem):
            continue
        finally:
            os.close(lock)


def compile_once(config: pytest.Config) -> None:
    """Let one process of a run on a new checkout compile what all of them import, while the others wait.

    Otherwise each of them compiles all of it.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    lock = os.open(Path(os.environ["TEST_RUN_FOLDER"]) / "compile.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    compiled = (Path(__file__).parent / "__pycache__").glob("test_*-pytest-*.pyc")
    if any(compiled):
        os.close(lock)
    else:
        config.stash[COMPILE_LOCK] = lock


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the other processes begin to collect."""
    lock = session.config.stash.get(COMPILE_LOCK, None)
    if lock is not None:
        del session.config.stash[COMPILE_LOCK]
        os.close(lock)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Start the database; a wrapper, because only then it comes before pytest-django loads the settings."""
    given_url = CITUS_URL or os.environ.get("TEST_DATABASE_URL", "")
    if given_url and not urlsplit(given_url).scheme.startswith("postgres"):
        raise pytest.UsageError("TEST_DATABASE_URL, TEST_CITUS_URL: expected a postgresql:// address")
    # Otherwise each process of the run, and each program that a test starts, compiles all of the project for itself.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    options = early_config.known_args_namespace
    # Who only hands tests out to processes of their own has no question to a database.
    asks = "PYTEST_XDIST_WORKER" in os.environ or options.usepdb or not getattr(options, "numprocesses", None)
    try:
        database = ThrowAwayDatabase(given_url, asks=asks)
    except PostgresProblem as problem:
        raise pytest.UsageError(str(problem)) from problem
    early_config.stash[DATABASE] = database
    early_config.add_cleanup(database.remove)
    for name in [name for name in os.environ if name.startswith("NOUS_")]:
        # What the developer has set for a server of theirs must not decide what a test sees.
        del os.environ[name]
    if "PYTEST_XDIST_WORKER" not in os.environ:
        # Of this process and of those that it hands tests out to.
        os.environ["TEST_RUN_FOLDER"] = str(database.folder)
    os.environ["DATABASE_URL"] = database.url
    os.environ["DATABASE_OWNER_URL"] = database.owner_url
    os.environ["NOUS_DATA_DIR"] = str(database.folder)
    os.environ["NOUS_SECRET_KEY"] = SECRET_KEY
    # Playwright's event loop makes Django believe that every query comes from async code.
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    compile_once(early_config)
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Log in as the owner."""
    from django.conf import settings

    for name in ("USER", "PASSWORD", "HOST", "PORT"):
        settings.DATABASES["default"][name] = settings.DATABASE_OWNER[name]
    if CITUS_URL:
        # Made already, on each server; pytest-django adds the name of the process once more.
        name = settings.DATABASES["default"]["NAME"].removesuffix(PROCESS)
        settings.DATABASES["default"].setdefault("TEST", {})["NAME"] = name
        config.option.reuse_db = True
    if config.stash[DATABASE].copied:
        settings.DATABASES["default"].setdefault("TEST", {})["TEMPLATE"] = MIGRATED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what a cluster cannot do."""
    exceptions_mark(items)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Start the server, if it has not been: a copy of a cluster that was made while the tests were collected."""
    try:
        session.config.stash[DATABASE].start_copied()
    except PostgresProblem as problem:
        raise pytest.UsageError(str(problem)) from problem
    return (yield)


@contextmanager
def product_rights() -> Iterator[None]:
    """Let every connection made from now on have the rights of the running product."""
    from django.conf import settings
    from django.db import connection

    options = settings.DATABASES["default"]["OPTIONS"]
    connection.close()
    if settings.DATABASE_OWNER["USER"] != settings.DATABASE_ROLE:
        options["assume_role"] = settings.DATABASE_ROLE
    try:
        yield
    finally:
        connection.close()
        options.pop("assume_role", None)


@contextmanager
def as_the_owner() -> Iterator[None]:
    """For a test that does something to a table itself, or to history, on its own connection and in its transaction."""
    from django.db import connection

    role = connection.settings_dict["OPTIONS"].get("assume_role")
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")
    try:
        yield
    finally:
        if role and not connection.needs_rollback:
            with connection.cursor() as cursor:
                cursor.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
