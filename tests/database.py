"""pytest plugin: a throw-away PostgreSQL for the whole run, created before Django reads its settings.

TEST_DATABASE_URL names a server to use instead, whose user needs the privilege to create databases; the tests have that
one role then. TEST_CITUS_URL names a database of a Citus cluster instead, beside which each process makes its own
(tests/cluster.py). All files of the run go into a temporary folder, which is removed at its end. Folders of killed runs
are removed by the next run.

Tests have no more privileges in it than the running product: the owner of the tables creates and migrates the test
database, and then its connections step down to the product's role (`SET ROLE`). Tests change tables themselves through
`as_the_owner`.
"""

import atexit
import fcntl
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

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
DATABASE = pytest.StashKey["ThrowAwayDatabase"]()
COMPILE_LOCK = pytest.StashKey[int]()
"""Held by the process that compiles, until it has collected the tests."""


class ThrowAwayDatabase:
    """The folder and, unless a URL was given, the server of one test process.

    A process that only distributes tests (`asks` is False) uses no server.
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
        self._of_cluster: ClusterDatabase | None = None
        self._pid = os.getpid()
        self.owner_url = self.url = given_url
        if given_url and given_url == CITUS_URL:
            if asks:
                self._of_cluster = ClusterDatabase(given_url)
                self.owner_url = self.url = self._of_cluster.url
        elif given_url:
            check_requirements(given_url)
        else:
            self._server = EmbeddedServer(self.folder, fast_unsafe=True, say=lambda line: None)
            self.owner_url, self.url = self._server.owner_url, self._server.url
            if asks:
                self._server.start()

    def remove(self) -> None:
        """Stop the server and delete the folder; a forked child does neither."""
        if os.getpid() == self._pid:
            if self._server is not None:
                self._server.destroy()
            if self._of_cluster is not None:
                self._of_cluster.remove()
            _folder_remove(self.folder)


def prepared_folder(run_folder: Path) -> Path:
    """Data folder of the stopped server of which every real product of this run begins with a copy."""
    return run_folder / "prepared"


def compressed_files_share(folder: Path) -> None:
    """Let what runs on the data folder `folder` find the compressed static files of the others of this run.

    They are always the same, and to compress them takes half a second of each start.
    """
    shared = Path(os.environ["TEST_RUN_FOLDER"]) / "static-compressed"
    shared.mkdir(exist_ok=True)
    if not (folder / "static-compressed").exists():
        (folder / "static-compressed").symlink_to(shared, target_is_directory=True)


def _folder_remove(folder: Path) -> None:
    prepared = prepared_folder(folder)
    if prepared.exists():
        # Its cluster may lie elsewhere.
        EmbeddedServer(prepared).destroy()
    shutil.rmtree(folder, ignore_errors=True)


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
    compressed_files_share(database.folder)
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a cluster cannot do, or what is nothing to it."""
    exceptions_mark(config, items)


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
