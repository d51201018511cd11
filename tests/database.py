"""pytest plugin: a throw-away PostgreSQL for the whole run, made before Django reads its settings.

TEST_DATABASE_URL names a server to use instead; its user needs the right to create databases. Everything
that the run writes goes into a temporary folder, which is removed at its end. Folders of runs that were
killed are removed by the next run.

Some tables are append-only: a trigger refuses UPDATE, DELETE and TRUNCATE. Tests of real transactions end
with Django's flush, a TRUNCATE of every table, so here and only here the flush runs with the tables'
triggers off.
"""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from nousweb.postgres import EmbeddedServer, PostgresProblem, check_requirements

FOLDER_PREFIX = "nous-test-"
TRUNCATED_TABLE = re.compile(r'"(?:[^"]|"")+"')


class ThrowAwayDatabase:
    """The folder and, unless a URL was given or nobody `asks` it, the server of one test process."""

    def __init__(self, given_url: str, *, asks: bool) -> None:
        _remove_abandoned()
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        # The account that runs PostgreSQL for root has to pass through.
        self.folder.chmod(0o755)
        # Held until the end of the process: an unlocked folder is an abandoned one.
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._server: EmbeddedServer | None = None
        self._pid = os.getpid()
        if given_url:
            check_requirements(given_url)
            self.url = given_url
        else:
            self._server = EmbeddedServer(self.folder, fast_unsafe=True, say=lambda line: None)
            self.url = self._server.start() if asks else self._server.url

    def remove(self) -> None:
        """Stop the server and delete the folder; a forked child does neither."""
        if os.getpid() == self._pid:
            if self._server is not None:
                self._server.destroy()
            shutil.rmtree(self.folder, ignore_errors=True)


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        try:
            lock = os.open(folder / "lock", os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            EmbeddedServer(folder).destroy()
            shutil.rmtree(folder, ignore_errors=True)
        except (OSError, PostgresProblem):
            continue
        finally:
            os.close(lock)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Start the database; a wrapper, because only then it comes before pytest-django loads the settings."""
    given_url = os.environ.get("TEST_DATABASE_URL", "")
    if given_url and not urlsplit(given_url).scheme.startswith("postgres"):
        raise pytest.UsageError("TEST_DATABASE_URL: expected a postgresql:// address")
    options = early_config.known_args_namespace
    # Who only hands tests out to processes of their own has no question to a database.
    asks = "PYTEST_XDIST_WORKER" in os.environ or options.usepdb or not getattr(options, "numprocesses", None)
    try:
        database = ThrowAwayDatabase(given_url, asks=asks)
    except PostgresProblem as problem:
        raise pytest.UsageError(str(problem)) from problem
    early_config.add_cleanup(database.remove)
    for name in [name for name in os.environ if name.startswith("NOUS_")]:
        # What the developer has set for a server of theirs must not decide what a test sees.
        del os.environ[name]
    os.environ["DATABASE_URL"] = database.url
    os.environ["NOUS_DATA_DIR"] = str(database.folder)
    os.environ["NOUS_SECRET_KEY"] = "only-for-tests-" + "x" * 50
    # Playwright's event loop makes Django believe that every query comes from async code.
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let Django's flush truncate the append-only tables."""
    from django.db.backends.postgresql.operations import DatabaseOperations

    original = DatabaseOperations.execute_sql_flush

    def execute_sql_flush(self: DatabaseOperations, sql_list: Iterable[str]) -> Any:
        statements = list(sql_list)
        return original(self, [*_triggers("DISABLE", statements), *statements, *_triggers("ENABLE", statements)])

    DatabaseOperations.execute_sql_flush = execute_sql_flush  # type: ignore[method-assign,assignment]
    config.add_cleanup(lambda: setattr(DatabaseOperations, "execute_sql_flush", original))


def _triggers(verb: str, statements: Sequence[str]) -> list[str]:
    """One ALTER TABLE for each table that the TRUNCATE among `statements` names."""
    return [
        f"ALTER TABLE {table} {verb} TRIGGER USER"
        for statement in statements
        if statement.startswith("TRUNCATE")
        for table in TRUNCATED_TABLE.findall(statement)
    ]
