"""Help and mistakes on the command line start nothing and leave nothing; two of `serve` do not share a data folder."""

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from nousweb import __version__
from nousweb.lib.installation import load_secret
from tests.database import DATABASE

PROJECT = Path(__file__).resolve().parent.parent.parent


HELP_AND_MISTAKES = {
    "reindex --help": (0, "Rebuild the search index"),
    "serve -h": (0, "web server"),
    "migrate --help": (0, "usage: manage.py migrate"),
    "help erase": (0, "usage: manage.py erase"),
    "check": (0, "no issues"),
    "": (0, "    serve\n"),
    "--help": (0, "    erase\n"),
    "--version": (0, f"Nous Web {__version__}"),
    "createagent": (2, "arguments are required: slug"),
    "serve --port x": (2, "whole number"),
    "reindex --nonsense": (2, "unrecognized arguments"),
    "nonsense": (1, "Unknown command"),
}
"""Exit code and part of what is said, by arguments."""

STARTED = ("check", "serve --port x")
"""One of each kind is a program of its own; the others are children of one that has loaded the settings and apps."""

IN_CHILDREN = """
import json, os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "nousweb.settings"
import django
from nousweb.runtime.command_line import main
django.setup()
for number, arguments in enumerate(json.loads(sys.argv[1])):
    child = os.fork()
    if not child:
        said = os.open(f"{sys.argv[2]}/{number}", os.O_WRONLY | os.O_CREAT)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.argv = ["manage.py", *arguments]
        main()
        sys.exit()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([code, os.path.exists(os.environ["NOUS_DATA_DIR"])]), flush=True)
"""


def program(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """As somebody who has set nothing but the data folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NOUS_", "DATABASE_", "DJANGO_"))}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT, env=kept | {"NOUS_DATA_DIR": str(folder)} | variables,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def run_in_children(place: Path, asked: list[list[str]], **variables: str) -> list[tuple[int, str, bool]]:
    """Exit code, what was said, and whether there is a data folder, for each list of arguments."""
    finished = program(place / "data", "-c", IN_CHILDREN, json.dumps(asked), str(place), **variables)
    assert finished.returncode == 0, finished.stderr
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    assert len(lines) == len(asked)
    return [(code, (place / str(number)).read_text(), made) for number, (code, made) in enumerate(lines)]


@pytest.fixture(scope="module")
def in_children(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, bool]]:
    asked = [arguments for arguments in HELP_AND_MISTAKES if arguments not in STARTED]
    answers = run_in_children(tmp_path_factory.mktemp("said"), [arguments.split() for arguments in asked])
    return dict(zip(asked, answers, strict=True))


@pytest.mark.parametrize("arguments", HELP_AND_MISTAKES)
def test_command_help_and_mistakes_touch_neither_database_nor_data_folder(
    tmp_path: Path, in_children: dict[str, tuple[int, str, bool]], arguments: str
) -> None:
    code, said = HELP_AND_MISTAKES[arguments]
    if arguments in STARTED:
        folder = tmp_path / "data"
        finished = program(folder, str(PROJECT / "manage.py"), *arguments.split())
        answer = finished.returncode, finished.stdout + finished.stderr, folder.exists()
    else:
        answer = in_children[arguments]
    assert answer[0] == code, answer[1]
    assert said in answer[1]
    assert answer[2] is False


def test_command_starts_without_loading_the_api_or_an_http_client(tmp_path: Path) -> None:
    listed = "import sys, django; django.setup(); print(*{'ninja', 'pydantic', 'requests', 'urllib3'} & {*sys.modules})"
    program_code = f"import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'nousweb.settings'; {listed}"
    finished = program(tmp_path / "data", "-c", program_code)
    assert (finished.returncode, finished.stdout.strip()) == (0, ""), finished.stdout + finished.stderr


def test_command_on_a_data_folder_without_tables_says_what_to_do(tmp_path: Path) -> None:
    finished = program(tmp_path / "data", str(PROJECT / "manage.py"), "createagent", "ada")
    assert finished.returncode == 1
    assert "Traceback" not in finished.stderr
    said = finished.stderr.splitlines()[-1]
    assert f"The database of the data folder {tmp_path}/data has no tables yet. Run `serve` or `migrate` first" in said


@pytest.fixture
def empty_database(pytestconfig: pytest.Config) -> Iterator[str]:
    owner, name = pytestconfig.stash[DATABASE].owner_url, f"empty_{os.getpid()}"
    with psycopg.connect(owner, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield urlsplit(owner)._replace(path=f"/{name}").geturl()
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_command_without_its_database_says_so_and_reports_no_success(tmp_path: Path, empty_database: str) -> None:
    away = "postgres://nobody@127.0.0.1:1/nothing"
    for arguments, url, said in (
        (["verify"], away, "nous: The database cannot be reached: "),
        (["createagent", "ada"], empty_database, "nous: The database that DATABASE_URL names has no tables yet."),
        (["backup", str(tmp_path / "kept")], empty_database, "CommandError: The database is empty"),
    ):
        urls = {"DATABASE_URL": url, "DATABASE_OWNER_URL": url}
        finished = program(tmp_path / "data", str(PROJECT / "manage.py"), *arguments, **urls)
        assert (finished.returncode, finished.stderr.count("\n"), finished.stderr[: len(said)]) == (1, 1, said)
    assert not (tmp_path / "kept").exists()


def test_command_with_a_mistake_in_a_statement_tells_of_it_and_not_of_the_database(
    tmp_path: Path, empty_database: str
) -> None:
    with psycopg.connect(empty_database) as server:
        server.execute("CREATE TABLE django_migrations ()")
    code = """
from django.db import connection
from psycopg import Cursor
connection.ensure_connection()
with connection.wrap_database_errors:
    Cursor(connection.connection).execute({})
"""
    statements = ["'SELECT gone.a'", "'SELECT %s, %s', [1]", "'SELECT ' + ', '.join(['%s'] * 65536), [1] * 65536"]
    asked = [["shell", "--no-imports", "-c", code.format(statement)] for statement in statements]
    urls = {"DATABASE_URL": empty_database, "DATABASE_OWNER_URL": empty_database}
    for exit_code, said, _ in run_in_children(tmp_path, asked, **urls):
        assert (exit_code, "Traceback" in said) == (1, True), said
        assert "nous: The database" not in said


def test_serve_twice_on_a_data_folder_is_refused_and_wipes_nothing(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    counted = tmp_path / "metrics" / "counter_1.db"
    counted.write_text("of the first one")
    lock = os.open(tmp_path / "serve.lock", os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        finished = subprocess.run(
            [sys.executable, str(PROJECT / "manage.py"), "serve", "--port", "18999"],
            env=os.environ | {"NOUS_DATA_DIR": str(tmp_path)},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    finally:
        os.close(lock)
    assert finished.returncode == 1
    assert f"Another `serve` runs on the data folder {tmp_path}" in finished.stderr
    assert counted.exists()


def test_secret_key_is_made_once_by_concurrent_starts(tmp_path: Path) -> None:
    path, found = tmp_path / "data" / "secret_key", []
    begin = threading.Barrier(8)

    def come() -> None:
        begin.wait()
        found.append(load_secret(path))

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 8
    assert path.stat().st_mode & 0o077 == 0
    assert [one.name for one in path.parent.iterdir()] == ["secret_key"]
