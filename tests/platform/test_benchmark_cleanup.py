"""A benchmark that is told to end, or killed, leaves no program and no folder behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.product import PROJECT, until
from tests.security.scale import scaled

TINY = """
import time
from benchmarks.system import system
from nousweb.runtime.postgres import EmbeddedServer
from tests.product import prepared_cluster_copy
def prepare(folder):
    prepared_cluster_copy(EmbeddedServer(folder, say=lambda line: None))
with system(worker=True, prepare=prepare) as running:
    print(running.folder, flush=True)
    time.sleep(600)
"""
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT]


def programs_of(folder: str) -> list[str]:
    """Command lines of all programs that were started for `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            about = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and folder.encode() in about and int(entry.name) != os.getpid():
            found.append((entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " "))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's own")
@pytest.mark.parametrize("how", SIGNALS[: scaled(1, len(SIGNALS))])
def test_benchmark_ended_leaves_no_program_and_no_folder(how: signal.Signals) -> None:
    benchmark = subprocess.Popen(
        [sys.executable, "-c", TINY], cwd=PROJECT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert benchmark.stdout is not None
    folder = benchmark.stdout.readline().strip()
    assert folder
    running = " ".join(programs_of(folder))
    assert all(name in running for name in ("postgres", "gunicorn", "qcluster", "benchmarks.cleanup_guard"))
    benchmark.send_signal(how)
    benchmark.wait(60)
    until("all programs have ended", lambda: not programs_of(folder))
    until("the folder is removed", lambda: not Path(folder).exists())
