"""From an installed package to the first memory that an agent recalls: seconds, and lines of code, by kind of agent.

    python -m benchmarks.first_memory

A fresh virtual environment gets the product and the client from this clone. Then the watch starts: an empty server
until it is ready, an agent with its token, and each kind of agent as a program that keeps a memory and recalls it.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.system import PROJECT

PATIENCE = 300
MCP = """
async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {os.environ['NOUS_TOKEN']}"}) as http:
    async with Client(streamable_http_client(os.environ["NOUS_URL"] + "/mcp", http_client=http)) as client:
        await client.call_tool("learn_fact", {"content": "Tim lives in Lisbon."})
        print(await client.call_tool("recall", {"q": "Where does Tim live?"}))
"""
MCP_IMPORTS = """
import asyncio, os, httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
"""
PYTHON = """
from nous_client import Nous
nous = Nous()
nous.learn_fact("Tim lives in Lisbon.")
print(nous.recall("Where does Tim live?"))
"""
MEMORY_TOOL = """
from nous_client.anthropic import MemoryTool
tool = MemoryTool()
tool.call({"command": "create", "path": "/memories/tim.md", "file_text": "Tim lives in Lisbon."})
print(tool.call({"command": "view", "path": "/memories/tim.md"}))
"""
LANGGRAPH = """
from nous_client.langgraph import NousStore
store = NousStore()
store.put(("people",), "tim", {"text": "Tim lives in Lisbon."})
print(store.search(("people",), query="Where does Tim live?"))
"""
MEM0 = """
from nous_client.mem0 import Memory
memory = Memory()
memory.add("Tim lives in Lisbon.", user_id="tim")
print(memory.search("Where does Tim live?", filters={"user_id": "tim"}))
"""
WAYS = {
    "MCP, official client": (MCP_IMPORTS, MCP),
    "Python client": ("", PYTHON),
    "Anthropic's memory tool": ("", MEMORY_TOOL),
    "LangGraph store": ("", LANGGRAPH),
    "mem0's Memory": ("", MEM0),
}
"""What has to be imported first where it does not count as a step, and the lines that are the agent's."""


def lines_of(code: str) -> int:
    return sum(bool(line.strip()) for line in code.splitlines())


def program_of(imports: str, code: str) -> str:
    if "await " not in code:
        return imports + code
    indented = "\n".join(f"    {line}" for line in code.strip().splitlines())
    return f"{imports}\nasync def main():\n{indented}\nasyncio.run(main())\n"


@contextlib.contextmanager
def environment(folder: Path):
    """A virtual environment with the product and the client, as an empty shell would have it."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "uv", "venv", "--quiet", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    packages = [str(PROJECT), f"{PROJECT / 'clients/python'}[anthropic,langgraph,mem0]", "mcp"]
    subprocess.run([sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, *packages], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NOUS_", "DATABASE_", "DJANGO_"))}
    yield kept | {
        "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
        "NOUS_DATA_DIR": str(folder / "data"),
        "NOUS_PORT": str(port),
        "NOUS_URL": f"http://127.0.0.1:{port}",
    }


@contextlib.contextmanager
def serving(shell: dict[str, str], folder: Path):
    """`nous serve`, ready."""
    with (folder / "serve.log").open("wb") as log:
        serve = subprocess.Popen(["nous", "serve"], cwd=folder, env=shell, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + PATIENCE
            while not _ready(shell["NOUS_URL"]):
                assert serve.poll() is None, (folder / "serve.log").read_text()
                assert time.monotonic() < deadline, "it is not ready"
                time.sleep(0.1)
            yield
        finally:
            serve.send_signal(signal.SIGTERM)
            serve.wait(PATIENCE)


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main() -> None:
    # Not below a private home, which the account that runs PostgreSQL for root could not enter.
    folder = Path(tempfile.mkdtemp(prefix="nous-first-"))
    folder.chmod(0o755)
    try:
        began = time.monotonic()
        with environment(folder) as shell:
            print(f"{datetime.now(UTC):%d %B %Y}, load {os.getloadavg()[0]:.0f}, {os.cpu_count()} cores")
            print(f"install: {time.monotonic() - began:.0f} s, not counted\n")
            began = time.monotonic()
            with serving(shell, folder):
                started = time.monotonic() - began
                quiet = {"env": shell, "check": True, "capture_output": True, "text": True}
                subprocess.run(["nous", "createagent", "ada"], **quiet)
                made = ["nous", "createtoken", "ada", "--persona", "actor"]
                token = subprocess.run(made, **quiet).stdout.strip()
                ready = time.monotonic() - began
                print(f"empty server ready: {started:.1f} s; agent and token: {ready - started:.1f} s\n")
                print(
                    "| Agent | lines | first recalled memory, s | with server, agent and token, s |\n|---|---|---|---|"
                )
                for name, (imports, code) in WAYS.items():
                    began = time.monotonic()
                    said = subprocess.run(
                        [shutil.which("python", path=shell["PATH"]) or "python", "-c", program_of(imports, code)],
                        env=shell | {"NOUS_TOKEN": token}, check=True, capture_output=True, text=True,
                    ).stdout  # fmt: skip
                    took = time.monotonic() - began
                    assert "Lisbon" in said, (name, said)
                    print(f"| {name} | {lines_of(imports + code)} | {took:.1f} | {ready + took:.1f} |")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
