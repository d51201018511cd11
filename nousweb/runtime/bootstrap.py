"""Make `.venv` and install the locked dependencies: `python3 -I nousweb/runtime/bootstrap.py [OPTION ...]`.

Runs on the standard library alone, before anything is installed. The second run only compares a stamp. An
install that was interrupted has no stamp and is made again from nothing.
"""

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[2]
VENV = PROJECT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed"
LOG = VENV / "install.log"
LOWEST_PYTHON = (3, 11)
BYTES_NEEDED = 1_500_000_000


class Program(NamedTuple):
    """A requirement of `users`, some tests, besides Python: any of these commands, the best first.

    Debian's packages are tried in order until the first command exists, or at least one.
    """

    names: "tuple[str, ...]"
    packages: "tuple[str, ...]"
    users: str
    of_drills: bool = False

    def there(self) -> bool:
        """Whether the tests can run."""
        return any(map(program_path, self.names))


PROGRAMS = (
    Program(
        # The shell has no window to draw, which takes a seventh off the work of these tests.
        ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
        ("chromium-headless-shell", "chromium"),
        "the browser tests",
    ),
    Program(("redis-server",), ("redis-server",), "the tests of Redis as broker"),
    Program(("curl",), ("curl",), "the snippets of the documentation"),
    Program(("jq",), ("jq",), "the snippets of the documentation"),
    Program(("pgbouncer",), ("pgbouncer",), "the drill of a pooler", of_drills=True),
    Program(("nginx",), ("nginx-light",), "the drill of a proxy", of_drills=True),
)


def program_path(name: str) -> "str | None":
    """The path of a program, also of one that only an administrator usually runs."""
    return shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")


class SetupProblem(Exception):
    """The set-up cannot go on; the message is one sentence."""


def say(line: str) -> None:
    """Show one line of progress."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def digest(lock_name: str) -> str:
    """The content of the stamp after a complete install of `requirements/<lock_name>`."""
    content = (PROJECT / "requirements" / lock_name).read_bytes()
    return lock_name + " " + hashlib.sha256(content).hexdigest()


def installed(lock_names: "tuple[str, ...]") -> bool:
    """Whether one of the locks is completely installed."""
    try:
        return STAMP.read_text() in [digest(name) for name in lock_names] and os.access(PYTHON, os.X_OK)
    except OSError:
        return False


def check_machine() -> None:
    """Raise SetupProblem when the install cannot succeed here."""
    if sys.version_info < LOWEST_PYTHON:
        raise SetupProblem("Python 3.11 or newer is needed, and this is {}.{}.".format(*sys.version_info[:2]))
    if not os.access(PROJECT, os.W_OK):
        raise SetupProblem(f"The project folder {PROJECT} is not writable, and .venv is made there.")
    free = shutil.disk_usage(PROJECT).free
    if free < BYTES_NEEDED:
        raise SetupProblem(
            f"Only {free // 10**6} MB are free in {PROJECT}: the set-up needs {BYTES_NEEDED // 10**6} MB."
        )


def check_port(host: str, port: int) -> None:
    """Raise SetupProblem when no server can listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SetupProblem(
                f"Port {port} of {host} cannot be used ({error.strerror}): "
                "stop the program that has it, or choose another port with NOUS_PORT."
            ) from error


def check_demo_port() -> None:
    """Raise SetupProblem when the demo's port is taken. A bad NOUS_PORT is reported by `serve`."""
    port = os.environ.get("NOUS_PORT") or "8000"
    if port.isdecimal() and 0 < int(port) < 65536:
        check_port(os.environ.get("NOUS_HOST") or "127.0.0.1", int(port))


def make_environment() -> None:
    """Make an empty `.venv`."""
    if shutil.which("uv"):
        command = ["uv", "venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, str(VENV)]
    else:
        try:
            import ensurepip  # noqa: F401
        except ImportError:
            raise SetupProblem(
                "Python's venv module is incomplete: install it (on Debian and Ubuntu: apt install python3-venv)."
            ) from None
        command = [sys.executable, "-I", "-m", "venv", "--clear", str(VENV)]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    if finished.returncode:
        reason = (finished.stderr or finished.stdout).strip().splitlines() or ["no reason given"]
        raise SetupProblem(f"The environment {VENV} could not be made: {reason[-1]}")


def install(lock_name: str) -> None:
    """Install exactly the packages of the lock, checking every hash.

    uv needs a third of the time that pip needs. Where there is none and pip is told to use another index or a proxy,
    which uv does not know of, or where uv cannot be installed or fails, pip does it.
    """
    lock = PROJECT / "requirements" / lock_name
    pip = [str(PYTHON), "-I", "-m", "pip", "install", "--no-input", "--progress-bar=off", "--disable-pip-version-check"]
    uv = ["pip", "install", "--compile-bytecode", "--python", str(PYTHON)]
    if shutil.which("uv"):
        run_installer(["uv", *uv], lock)
        return
    configured = subprocess.run([*pip[:4], "config", "list"], check=False, capture_output=True, text=True).stdout
    if not re.search(r"\.(index-url|no-index|proxy)=", configured):
        only_uv = VENV / "uv.lock"
        block = re.search(r"^uv==(.|\n(?= ))*", lock.with_name("dev.lock").read_text(), re.MULTILINE)
        try:
            only_uv.write_text(block[0] if block else "")
            run_installer([*pip, "--only-binary=:all:"], only_uv)
            run_installer([str(PYTHON), "-I", "-m", "uv", *uv], lock)
        except SetupProblem:
            say("  once more, with pip")
        else:
            return
    run_installer(pip, lock)


def run_installer(command: "list[str]", lock: Path) -> None:
    """Run an installer with the packages of a lock; raise SetupProblem when it fails."""
    total = len(re.findall(r"^[A-Za-z0-9]", lock.read_text(), re.MULTILINE))
    # The lock is complete, so there is nothing to resolve.
    command = [*command, "--require-hashes", "--no-deps", "--requirement", str(lock)]
    environment = {name: value for name, value in os.environ.items() if name not in ("PIP_USER", "PYTHONHOME")}
    seen = 0
    with LOG.open("w") as log:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None  # noqa: S101
        for line in process.stdout:
            log.write(line)
            if line.startswith(("Collecting ", "Ignoring ")):
                seen += 1
                show_progress(seen, total, line.split()[1].partition("==")[0].rstrip(":"))
            elif line.startswith("Installing collected"):
                show_progress(total, total, "unpacking")
        code = process.wait()
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    if code:
        raise SetupProblem(failure(LOG.read_text()))


def show_progress(seen: int, total: int, name: str) -> None:
    """One line that changes on a terminal; a few lines elsewhere."""
    if total == 1:
        return
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K  {seen}/{total} {name}")
        sys.stderr.flush()
    elif seen % 25 == 0 or seen == total:
        say(f"  {seen}/{total} {name}")


def failure(output: str) -> str:
    """One sentence about a failed install."""
    if "No space left on device" in output:
        return f"The disk is full: free some space for {PROJECT} and run this again."
    errors = [line for line in output.splitlines() if line.upper().lstrip().startswith("ERROR")]
    reason = (errors or output.strip().splitlines() or ["no reason given"])[-1].strip()
    return f"The dependencies could not be installed (log: {LOG}): {reason}"


def ensure_installed(dev: bool) -> None:
    """Install what is missing. Two concurrent runs wait for each other."""
    wanted = ("dev.lock",) if dev else ("run.lock", "dev.lock")
    if sys.version_info >= LOWEST_PYTHON and installed(wanted):
        return
    check_machine()
    folder = os.open(PROJECT, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if installed(wanted):
            return
        began = time.monotonic()
        say("Installing the dependencies into .venv (once) ...")
        if STAMP.exists() and os.access(PYTHON, os.X_OK):
            STAMP.unlink()
        else:
            make_environment()
        install(wanted[0])
        STAMP.write_text(digest(wanted[0]))
        say(f"  done in {time.monotonic() - began:.0f} s")
    finally:
        os.close(folder)


def ensure_programs(*, of_drills: bool) -> None:
    """Install what Debian has for the tests, or for the drills, when this may be done, and say so loudly when not."""
    programs = [each for each in PROGRAMS if each.of_drills == of_drills]
    wanted = [each for each in programs if not program_path(each.names[0])]
    if wanted and os.geteuid() == 0 and shutil.which("apt-get"):
        say("Installing Debian's programs for the tests (once) ...")
        debian("update")
        for each in wanted:
            for package in each.packages:
                debian("install", "--yes", "--no-install-recommends", package)
                if each.there():
                    break
    for each in programs:
        if not each.there():
            package = each.packages[-1]
            say("=" * 78)
            say(f"NO {package.upper()}: {each.users} cannot run (as root: apt-get install {package}).")
            say(
                "They will " + ("FAIL, because CI is set." if os.environ.get("CI") and not of_drills else "be skipped.")
            )
            say("=" * 78)


def debian(*arguments: str) -> None:
    """Run apt-get, and say its last words when it fails."""
    finished = subprocess.run(
        ["apt-get", "-qq", *arguments],
        check=False,
        # In this runlevel packages do not start their services.
        env=dict(os.environ, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if finished.returncode:
        say((finished.stderr.strip().splitlines() or ["apt-get gave no reason"])[-1])


def main() -> int:
    """Run the command of the arguments; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dev", action="store_true", help="with the tools for tests and checks")
    parser.add_argument(
        "--programs",
        nargs="?",
        const="tests",
        choices=("tests", "drills"),
        help="with Debian's programs for the tests, such as Chromium, or for the drills, when they may be installed",
    )
    parser.add_argument("--demo", action="store_true", help="for `make demo`, whose port must be free")
    options = parser.parse_args()
    try:
        if options.demo:
            check_demo_port()
        ensure_installed(options.dev)
        if options.programs:
            ensure_programs(of_drills=options.programs == "drills")
    except SetupProblem as problem:
        say(f"nous: {problem}")
        return 1
    except OSError as error:
        say(f"nous: The set-up failed: {error}.")
        return 1
    except KeyboardInterrupt:
        say("\nnous: interrupted; the next run starts the set-up again.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
