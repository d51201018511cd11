"""The supervisor: nothing it starts outlives it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nousweb.runtime.supervisor import Child, LaunchProblem, Supervisor

PROJECT = Path(__file__).resolve().parent.parent.parent
SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def wait_for(condition: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_supervisor_stop_signal_ends_all_children_without_an_error() -> None:
    children = [Child("one", SLEEPER, vital=True), Child("two", SLEEPER, vital=False)]
    pids: list[int] = []

    def stop() -> None:
        pids.extend(child.process.pid for child in children if child.process)
        os.kill(os.getpid(), signal.SIGTERM)

    Supervisor(children, lambda line: None).run(lambda: True, stop)
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)


def test_supervisor_ends_when_a_vital_child_ends() -> None:
    failing = Child("web server", [sys.executable, "-c", "raise SystemExit(3)"], vital=True)
    other = Child("other", SLEEPER, vital=False)
    with pytest.raises(LaunchProblem, match=r"^The web server has ended \(exit code 3\)\.$"):
        Supervisor([failing, other], lambda line: None).run(lambda: False, lambda: None)
    assert other.process is None


def test_supervisor_restarts_a_worker_later() -> None:
    worker = Child("worker", SLEEPER, vital=False)
    said: list[str] = []
    pids: list[int] = []

    def ready() -> bool:
        if worker.process and worker.process.pid not in pids:
            pids.append(worker.process.pid)
            if len(pids) == 1:
                worker.process.kill()
        return len(pids) == 2

    began = time.monotonic()
    Supervisor([worker], said.append).run(ready, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert said == ["The worker has ended (killed by SIGKILL); again in 1 s."]
    assert 1.0 <= time.monotonic() - began < 10.0


def test_supervisor_restarts_a_web_server_that_has_been_ready() -> None:
    server = Child("web server", SLEEPER, vital=True)
    pids: list[int] = []

    def tend() -> None:
        if server.process and server.process.pid not in pids:
            pids.append(server.process.pid)
        if len(pids) == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    def end_it() -> None:
        assert server.process is not None
        server.process.kill()

    said: list[str] = []
    Supervisor([server], said.append, tend).run(lambda: bool(pids), end_it)
    assert said == ["The web server has ended (killed by SIGKILL); again in 1 s."]


def test_supervisor_sweeps_what_a_child_leaves_behind() -> None:
    program = "import subprocess, sys; subprocess.Popen(sys.argv[1:])"
    child = Child("parent", [sys.executable, "-c", program, *SLEEPER], vital=True)
    child.start()
    assert child.process is not None
    group = child.process.pid
    child.process.wait()
    child.kill_remaining()
    wait_for(lambda: not any(alive(pid) for pid in members(group)))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's own")
def test_supervisor_killed_ends_its_children() -> None:
    program = (
        "import sys, time; from nousweb.runtime.supervisor import Child; "
        "child = Child('c', [sys.executable, '-c', 'import time; time.sleep(60)'], vital=True); "
        "child.start(); time.sleep(1); print(child.process.pid, flush=True); time.sleep(60)"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", program], cwd=PROJECT, stdout=subprocess.PIPE)
    assert supervisor.stdout is not None
    pid = int(supervisor.stdout.readline())
    assert alive(pid)
    supervisor.kill()
    supervisor.communicate()
    wait_for(lambda: not alive(pid))


def members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getpgid(int(entry.name)) == group:
                    found.append(int(entry.name))
            except ProcessLookupError:
                continue
    return found
