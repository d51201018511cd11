"""`serve --demo` as a reader starts it, and a folder that looks like a clone of the project to those who type there."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nousweb.runtime.postgres import EmbeddedServer
from nousweb.runtime.supervisor import answers
from tests.database import compressed_files_share
from tests.docs.openai_server import OpenAiServer
from tests.judge_server import KEY, JudgeServer, Reply
from tests.product import PATIENCE, PROJECT, tied

START_SECONDS = 400.0
"""Making the database, migrating it and playing the demo's story, on a machine that is busy with other tests."""
CURL = """#!/bin/sh
exec {curl} "$@" -w '%{{stderr}}HTTP %{{http_code}}\\n'
"""
"""curl, which also says each status on standard error: by itself it is content with a refusal."""
NOUS = """#!/bin/sh
exec {python} -c 'from nousweb.runtime.command_line import main; main()' "$@"
"""
"""What the installed package brings as `nous`."""


@dataclass
class DemoServer:
    """A running demo: where it answers, and what it printed for its reader."""

    address: str
    token: str
    passwords: dict[str, str]
    folder: Path
    """Where a reader types: a clone, as far as names of files go."""
    environment: dict[str, str]


ANSWER = "The connection pool was too small."
"""What the language models of the demo's reader say to everything."""


@contextlib.contextmanager
def demo_of_a_reader() -> Iterator[DemoServer]:
    """A demo beside both kinds of language model, for which the reader has keys."""
    if not (shutil.which("curl") and shutil.which("jq")):
        (pytest.fail if os.environ.get("CI") else pytest.skip)("curl and jq are not installed")
    with JudgeServer() as claude, OpenAiServer(ANSWER) as gpt:
        claude.always(Reply(content=[{"type": "text", "text": ANSWER}], stop_reason="end_turn"))
        keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
        with demo_server(ANTHROPIC_BASE_URL=claude.url, OPENAI_BASE_URL=gpt.url, **keys) as running:
            yield running


@contextlib.contextmanager
def demo_server(**variables: str) -> Iterator[DemoServer]:
    """A demo on a folder of its own, gone at the end; `variables` are further ones of the reader's shell."""
    # Not pytest's own folder, which the account that runs PostgreSQL for root may not enter.
    data = Path(tempfile.mkdtemp(prefix="nous-docs-"))
    data.chmod(0o755)
    compressed_files_share(data)
    folder = Path(tempfile.mkdtemp(prefix="nous-reader-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = _environment(data, folder, port) | variables
    log = (data / "serve.log").open("wb")
    serve = subprocess.Popen(
        tied(sys.executable, str(PROJECT / "manage.py"), "serve", "--demo"),
        cwd=PROJECT,
        env=environment,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while serve.poll() is None and not answers(f"http://127.0.0.1:{port}/readyz", "localhost"):
            assert time.monotonic() < deadline, (data / "serve.log").read_text()
            time.sleep(0.2)
        assert serve.poll() is None, (data / "serve.log").read_text()
        kept = json.loads((data / "demo.json").read_text())
        yield DemoServer(f"http://127.0.0.1:{port}", kept["token"], kept["passwords"], folder, environment)
    finally:
        if serve.poll() is None:
            serve.send_signal(signal.SIGTERM)
            serve.wait(PATIENCE)
        log.close()
        EmbeddedServer(data, say=lambda line: None).destroy()
        shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def _environment(data: Path, folder: Path, port: int) -> dict[str, str]:
    for entry in PROJECT.iterdir():
        if entry.name not in (".git", "var"):
            (folder / entry.name).symlink_to(entry)
    programs = folder / "programs"
    programs.mkdir()
    curl = shutil.which("curl")
    for name, text in (("curl", CURL.format(curl=curl)), ("nous", NOUS.format(python=sys.executable))):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    left_out = ("NOUS_", "DATABASE_", "DJANGO_SETTINGS_MODULE", "TEST_DATABASE_URL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {
        "NOUS_DATA_DIR": str(data),
        "NOUS_PORT": str(port),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": f"{folder}:{PROJECT / 'clients/python/src'}",
    }
