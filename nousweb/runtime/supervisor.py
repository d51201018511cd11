"""Keep the web server and the background worker running together, and end them together."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

CODE = Path(__file__).resolve().parents[2]
"""The folder where programs find the package, also in a clone that is not installed."""
READY_SECONDS = 60.0
STOP_SECONDS = 9.0
POLL_SECONDS = 0.1
TEND_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
STABLE_SECONDS = 60.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LaunchProblem(Exception):
    """The program cannot run, or has ended by itself; the message is one sentence."""


@dataclass
class Child:
    """A program to keep running, which is started again when it dies. A `vital` one must have been ready once."""

    name: str
    command: Sequence[str]
    vital: bool
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    backoff: float = 1.0
    restart_at: float = 0.0

    def start(self) -> None:
        """Start the program in a session of its own, so that Ctrl-C reaches only the supervisor."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nousweb.runtime.parent_death_signal", str(os.getpid()), *self.command],
            cwd=CODE,
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.started = time.monotonic()

    def exit_code(self) -> int | None:
        """The exit code, or None while the program runs."""
        return self.process.poll() if self.process else None

    def terminate(self) -> None:
        """Ask the program to end."""
        if self.process and self.process.poll() is None:
            self.process.terminate()

    def kill_remaining(self) -> None:
        """Kill all processes that the program, ended or not, has left in its process group."""
        if self.process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


class Supervisor:
    """Runs its children until a stop signal comes."""

    def __init__(
        self, children: Sequence[Child], say: Callable[[str], None], tend: Callable[[], None] = lambda: None
    ) -> None:
        self.children = children
        self._say = say
        # Called every few seconds, for what has to run and is no child.
        self._tend = tend
        self._tend_at = 0.0
        self._stopping = False
        self._was_ready = False

    def run(self, ready: Callable[[], bool], on_ready: Callable[[], None]) -> None:
        """Start everything, call `on_ready` once `ready` answers true, and watch until it has to stop.

        Returns after a stop signal; raises LaunchProblem when a vital child ends before that. Either way nothing is
        left.
        """
        before = {number: signal.signal(number, self._on_signal) for number in STOP_SIGNALS}
        try:
            for child in self.children:
                child.start()
            deadline = time.monotonic() + READY_SECONDS
            while not self._stopping and not ready():
                self._watch()
                if time.monotonic() > deadline:
                    raise LaunchProblem(f"The web server did not become ready within {READY_SECONDS:.0f} s.")
                time.sleep(POLL_SECONDS)
            self._was_ready = True
            if not self._stopping:
                on_ready()
            while not self._stopping:
                self._watch()
                time.sleep(POLL_SECONDS)
        finally:
            self._stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _watch(self) -> None:
        now = time.monotonic()
        if now >= self._tend_at:
            self._tend()
            self._tend_at = now + TEND_SECONDS
        for child in self.children:
            code = child.exit_code()
            if child.process is None and now >= child.restart_at:
                child.start()
            elif code is not None:
                child.kill_remaining()
                if child.vital and not self._was_ready:
                    raise LaunchProblem(f"The {child.name} has ended ({_ending(code)}).")
                if now - child.started > STABLE_SECONDS:
                    child.backoff = 1.0
                self._say(f"The {child.name} has ended ({_ending(code)}); again in {child.backoff:.0f} s.")
                child.restart_at = now + child.backoff
                child.backoff = min(child.backoff * 2, LONGEST_BACKOFF_SECONDS)

    def _stop(self) -> None:
        for child in self.children:
            child.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        while any(child.process and child.exit_code() is None for child in self.children):
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        for child in self.children:
            child.kill_remaining()


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def answers(url: str, host: str) -> bool:
    """Whether `url` answers 200 when asked under the name `host`; a server that is not there answers no."""
    request = urllib.request.Request(url, headers={"Host": host})  # noqa: S310
    # Not through a proxy from the environment: this is about the program next door.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5) as response:
            return response.status == 200
    except (OSError, urllib.error.URLError):
        return False
