"""`manage.py serve` as an operator runs it, with a database that goes away for good."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nousweb.runtime.postgres import EmbeddedServer
from nousweb.runtime.supervisor import answers
from tests.product import PATIENCE, PROJECT, prepared_cluster_copy, tied, until


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own folder, which the account that runs PostgreSQL for root may not enter.
    made = Path(tempfile.mkdtemp(prefix="nous-serve-"))
    made.chmod(0o755)
    yield made
    EmbeddedServer(made, say=lambda line: None).destroy()
    shutil.rmtree(made, ignore_errors=True)


def test_serve_ends_with_a_sentence_when_its_database_is_gone(folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    prepared_cluster_copy(EmbeddedServer(folder, say=lambda line: None))
    ours = ("NOUS_", "DATABASE_URL", "DJANGO_SETTINGS_MODULE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    with (folder / "serve.log").open("wb") as log:
        serve = subprocess.Popen(
            tied(sys.executable, str(PROJECT / "manage.py"), "serve"),
            cwd=PROJECT,
            env=kept | {"NOUS_DATA_DIR": str(folder), "NOUS_PORT": str(port)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until("ready", lambda: answers(f"http://127.0.0.1:{port}/readyz", "localhost"))
        cluster = folder / "postgres" / "data"
        pid = int((cluster / "postmaster.pid").read_text().split()[0])
        cluster.rename(folder / "postgres" / "away")
        os.kill(pid, signal.SIGKILL)
        assert serve.wait(PATIENCE) == 1
        assert not cluster.exists()
        last = (folder / "serve.log").read_text().strip().splitlines()[-1]
        assert last.startswith("CommandError: The database in ")
        assert last.endswith(" is gone.")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
    finally:
        if serve.poll() is None:
            os.killpg(serve.pid, signal.SIGKILL)
            serve.wait()
