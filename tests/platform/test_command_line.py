"""Help and mistakes on the command line start nothing and leave nothing; two of `serve` do not share a data folder."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nousweb.lib.secret import load_secret

PROJECT = Path(__file__).resolve().parent.parent.parent


def manage(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As somebody who has set nothing but the data folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NOUS_", "DATABASE_", "DJANGO_"))}
    return subprocess.run(
        [sys.executable, str(PROJECT / "manage.py"), *arguments],
        env=kept | {"NOUS_DATA_DIR": str(folder)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("reindex --help", 0, "Rebuild the search index"),
        ("serve -h", 0, "web server"),
        ("migrate --help", 0, "usage: manage.py migrate"),
        ("help erase", 0, "usage: manage.py erase"),
        ("check", 0, "no issues"),
        ("", 0, "Available subcommands"),
        ("createagent", 2, "arguments are required: slug"),
        ("serve --port x", 2, "whole number"),
        ("reindex --nonsense", 2, "unrecognized arguments"),
        ("nonsense", 1, "Unknown command"),
    ],
)
def test_command_help_and_mistakes_touch_neither_database_nor_data_folder(
    tmp_path: Path, arguments: str, code: int, said: str
) -> None:
    folder = tmp_path / "data"
    finished = manage(folder, *arguments.split())
    assert finished.returncode == code, finished.stderr
    assert said in finished.stdout + finished.stderr
    assert not folder.exists()


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
