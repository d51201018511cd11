"""Speed beside an older tree and its peers: python -m benchmarks.speed [--before FOLDER] [--rounds 5]

Each contender is ready before any is asked, and they are asked in turns, so that all meet the same machine: this tree,
the tree of FOLDER (a checkout with its own `.venv`), mem0, LangGraph's PostgresStore and Chroma's server. Searches
find ten memories of 10,000. Medians of the rounds; CPU is that of each part's processes, by request. Then each tree
stores and embeds messages, and starts: the demo for the first time, with its database to make, and again.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ingestion import LONG_CHARACTERS, cpu_seconds
from benchmarks.latency import texts_made
from benchmarks.system import PROJECT, RESULTS, tied

CLIENTS = {1: 60, 8: 240, 16: 240}
"""Requests of one round by the number of clients."""
PEERS = ("mem0", "langgraph", "chroma")
COMMANDS = 5
PATIENCE = 300.0


class Contender:
    """A process that answers what each line asks, and the processes that work for it."""

    def __init__(self, *command: str, folder: Path = PROJECT) -> None:
        environment = os.environ | {"PYTHONPATH": str(folder)}
        environment.pop("DJANGO_SETTINGS_MODULE", None)
        self._process = subprocess.Popen(
            tied(*command), cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.processes: dict[str, int] = self._answer()["processes"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                return dict(json.loads(line))
        raise RuntimeError(f"{self._process.args!r} ended.")

    def ask(self, what: str, **more: Any) -> dict[str, float]:
        """Percentiles, requests per second, and milliseconds of CPU by part and request."""
        assert self._process.stdin
        before = {name: cpu_seconds({pid}) for name, pid in self.processes.items()}
        print(json.dumps({"what": what, **more}), file=self._process.stdin, flush=True)
        answer = self._answer()
        if answer["errors"]:
            raise RuntimeError(f"{what}: {len(answer['errors'])} failed: {answer['errors'][0]}")
        times = answer["ms"]
        spent = {name: cpu_seconds({pid}) - before[name] for name, pid in self.processes.items()}
        spent["caller"] = answer["caller_cpu_seconds"]
        return {
            "p50_ms": float(np.percentile(times, 50)),
            "p95_ms": float(np.percentile(times, 95)),
            "per_second": answer["per_second"],
            **{f"{name}_cpu_ms": seconds * 1000 / len(times) for name, seconds in spent.items()},
        }

    def megabytes(self) -> float:
        """Of the largest process that answers: resident memory."""
        answering = self.processes.get("web") or self.processes.get("server") or self._process.pid
        # A web server's processes are its children, in a group of their own.
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return max(_resident(pid) for pid in pids if pid == answering or _group(pid) == answering) / 1e6

    def end(self) -> None:
        """End the input, and wait until everything is removed."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(PATIENCE)


def _group(pid: int) -> int:
    with contextlib.suppress(OSError):
        return os.getpgid(pid)
    return 0


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def compared(trees: dict[str, Path], size: int, rounds: int, agents: int) -> dict[str, Any]:
    """What each contender answers in each round, asked in turns."""
    contenders: dict[str, Contender] = {}
    with tempfile.TemporaryDirectory(prefix="nous-speed-") as made:
        try:
            for name, tree in trees.items():
                command = [str(tree / ".venv" / "bin" / "python"), str(Path(__file__).with_name("contender.py"))]
                more = [made] if tree == PROJECT else []
                contenders[name] = Contender(*command, str(size), str(agents), *more, folder=tree)
            python = str(PROJECT / ".venv-bench" / "bin" / "python")
            for name in PEERS:
                contenders[name] = Contender(python, "-m", "benchmarks.speed.peers", name, made)
                contenders[name].processes["postgres"] = contenders["now"].processes["postgres"]
            asked = [(name, what, count) for count in CLIENTS for name in contenders for what in WHAT.get(name, SEARCH)]
            answers: dict[tuple[str, str, int], list[dict[str, float]]] = {one: [] for one in asked}
            for _ in range(rounds):
                for name, what, count in asked:
                    answer = contenders[name].ask(what, clients=count, requests=CLIENTS[count])
                    answers[name, what, count].append(answer)
            stored = {
                f"{name} {kind}": contenders[name].ask("store", texts=texts)
                for kind, texts in messages_made().items()
                for name in PEERS
            }
            memory = {name: contender.megabytes() for name, contender in contenders.items()}
        finally:
            for contender in reversed(contenders.values()):
                contender.end()
    rows = [
        {"contender": name, "what": what, "clients": count, **{key: median(of, key) for key in of[0]}}
        for (name, what, count), of in answers.items()
    ]
    return {"memories": size, "answers": rows, "stored": stored, "megabytes": memory}


SEARCH = ("search",)
WHAT = {"now": ("context", "recall"), "before": ("context", "recall")}


def median(of: list[dict[str, float]], key: str) -> float:
    """Of one figure over the rounds."""
    return statistics.median(one[key] for one in of)


def messages_made() -> dict[str, list[str]]:
    """Short and long messages for the peers, which store one a call."""
    sentences = texts_made(20 * 60, 3)
    long = [" ".join(sentences[60 * one : 60 * one + 60])[:LONG_CHARACTERS] for one in range(20)]
    return {"short": texts_made(200, 2), "long": long}


def ingested(tree: Path) -> dict[str, Any]:
    """CPU and rates of messages, as benchmarks.ingestion of that tree measures them."""
    command = [str(tree / ".venv" / "bin" / "python"), "-m", "benchmarks.ingestion", "--short", "1000", "--long", "60"]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=tree, env=environment)
    return dict(json.loads(finished.stdout[finished.stdout.index("{") :]))


@contextlib.contextmanager
def demo(tree: Path, folder: Path) -> Iterator[float]:
    """A demo of the tree with its data in `folder`; gives the seconds until it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(tree / ".venv" / "bin" / "python"), "manage.py", "serve", "--demo"]
    began = time.perf_counter()
    server = subprocess.Popen(
        tied(*command),
        cwd=tree,
        env=os.environ | {"NOUS_PORT": str(port), "NOUS_DATA_DIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not _answers(port):
            if time.perf_counter() - began > PATIENCE or server.poll() is not None:
                raise RuntimeError(f"The demo of {tree} does not answer.")
            time.sleep(0.02)
        yield time.perf_counter() - began
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def started(tree: Path) -> dict[str, float]:
    """Seconds of the demo's first and second start, and of a command that reads its database."""
    folder = Path(tempfile.mkdtemp(prefix="nous-start-"))
    command = [str(tree / ".venv" / "bin" / "python"), "manage.py", "demoinfo"]
    try:
        with demo(tree, folder) as first:
            pass
        with demo(tree, folder) as second:
            times = []
            for _ in range(COMMANDS):
                began = time.perf_counter()
                environment = os.environ | {"NOUS_DATA_DIR": str(folder)}
                subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)
                times.append(time.perf_counter() - began)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"first_seconds": first, "second_seconds": second, "command_seconds": statistics.median(times)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, help="a checkout of an older tree, with its own .venv")
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--agents", type=int, default=9, help="other agents in the same tables")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    trees = {"now": PROJECT} | ({"before": options.before.resolve()} if options.before else {})
    found = compared(trees, options.size, options.rounds, options.agents)
    found["ingested"] = {name: ingested(tree) for name, tree in trees.items()}
    found["started"] = {name: started(tree) for name, tree in trees.items()}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "speed.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
