"""Importing many memories, killed and run again: python -m benchmarks.import_memory [--memories N] [--messages N]

A file of mem0's memories (benchmarks/imported_facts.py says what they are), and one of ChatGPT's messages, are imported
by the command. When a third of a file is stored the command is killed (SIGKILL), and run again; then once more.
Nothing may be there twice, nothing may lack, and the last run may store nothing. How far it is goes to standard error.
Then the agent is exported, and its file imported as another one. Rows a second are of the runs that stored; memory is
the greatest of the command's process.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.imported_facts import facts_file
from benchmarks.system import PROJECT, RESULTS, system, tied

SEED = 14
KILLED_AT = 1 / 3
LOOKED_SECONDS = 2.0
RATED = 0.1
"""The rates at the beginning and at the end are of so much of the entries."""
MESSAGES_PER_TALK = 40
WORDS = {
    "who": "sister brother neighbour teacher cousin doctor landlord colleague friend aunt tailor barber",
    "did": "repaired painted sold found borrowed photographed measured described lost inherited polished hid",
    "shape": "wooden copper striped ancient folding marble woven silver cracked hollow narrow painted square glass",
    "thing": "lantern cello kettle compass sledge wardrobe telescope anvil basket clock ladder saddle violin barrel"
    " mirror tent oar loom bench stove chisel globe drum map bell wheel bridge statue carpet engine",
    "place": "Lisbon Tromsø Jena Kyoto Quito Dakar Hobart Galway Bergen Cusco Tartu Perth Izmir Nantes Malmö Porto"
    " Riga Oran Leeds Turin Bari Ghent Split Kazan Lviv Kiruna Basel Graz Brno Vigo",
    "month": "January February March April May June July August September October November December",
}
CHOICES = {name: words.split() for name, words in WORDS.items()}


def sentence(dice: random.Random, number: int) -> str:
    """A sentence that no other number gives."""
    words = {name: dice.choice(found) for name, found in CHOICES.items()}
    return "The {who} {did} the {shape} {thing} in {place} last {month}".format(**words) + f", lot {number:x}."


def chatgpt_file(path: Path, count: int) -> None:
    dice = random.Random(SEED)
    with path.open("w") as file:
        file.write("[")
        for talk in range(count // MESSAGES_PER_TALK):
            mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
            parent = "root"
            for place in range(MESSAGES_PER_TALK):
                key, number = f"n{place}", talk * MESSAGES_PER_TALK + place
                mapping[key] = {
                    "parent": parent,
                    "children": [],
                    "message": {
                        "id": f"message-{number}",
                        "author": {"role": "assistant" if place % 2 else "user"},
                        "create_time": 1_760_000_000 + number,
                        "content": {"content_type": "text", "parts": [sentence(dice, number)]},
                    },
                }
                parent = key
            talk_of = {"conversation_id": f"talk-{talk}", "title": "Talk", "mapping": mapping, "current_node": parent}
            file.write((", " if talk else "") + json.dumps(talk_of))
        file.write("]")


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds that a command took, its greatest resident memory, and whether it was killed."""

    seconds: float
    mebibytes: int
    killed: bool


def run(*arguments: str, stop: Callable[[], bool] = lambda: False) -> Run:
    """Run a management command until it ends, or `stop` has it killed."""
    began = time.perf_counter()
    command = tied(sys.executable, "manage.py", *arguments)
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    killed = False
    while True:
        ended, status, usage = os.wait4(process.pid, 0 if killed else os.WNOHANG)
        if ended:
            break
        time.sleep(0.5)
        if stop():
            process.send_signal(signal.SIGKILL)
            killed = True
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and not killed:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}.")
    return Run(round(time.perf_counter() - began, 1), round(usage.ru_maxrss / 1024), killed)


class Watched:
    """How far a run is, looked at now and then, and how fast it was."""

    def __init__(self, stored: Callable[[], int]) -> None:
        self._stored = stored
        self._seen: list[tuple[float, int]] = []

    def look(self) -> int:
        now = time.perf_counter()
        if not self._seen or now - self._seen[-1][0] > LOOKED_SECONDS:
            self._seen.append((now, self._stored()))
            print(f"{self._seen[-1][1]:,} stored", file=sys.stderr, flush=True)
        return self._seen[-1][1]

    def rate(self, begin: float, end: float) -> float | None:
        """Rows a second from the `begin`th to the `end`th row; None where too little was seen of it."""
        seen = [(moment, count) for moment, count in self._seen if begin < count <= end]
        if len(seen) < 2:
            return None
        return round((seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]), 1)


def measure(slug: str, path: Path, count: int, *, move: bool) -> dict[str, Any]:
    """Import, kill, import again, and once more."""
    from identity.models import Agent
    from identity.principal import Principal
    from identity.services.agents import agent_create
    from memory.models import Event, Fact, ImportedMemory, MemoryReview

    agent: Agent = agent_create(slug=slug, name=slug, prompt="You are an agent.", by=Principal.of_system("benchmark"))
    command = ("importmemory", str(path), "--agent", slug)

    def stored() -> int:
        return ImportedMemory.objects.filter(agent=agent).count()

    begin, end = Watched(stored), Watched(stored)
    first = run(*command, stop=lambda: begin.look() > count * KILLED_AT)
    after_kill = stored()
    assert first.killed
    assert 0 < after_kill < count
    second = run(*command, stop=lambda: end.look() < 0)
    assert stored() == count, (stored(), count)
    again = run(*command)
    assert stored() == count
    facts = Fact.objects.filter(agent=agent)
    events = Event.objects.filter(agent=agent)
    outcomes = {}
    for outcome in ImportedMemory.Outcome.values:
        if rows := ImportedMemory.objects.filter(agent=agent, outcome=outcome).count():
            outcomes[outcome] = rows
    made = facts.count() + events.count()
    sources = facts.values_list("source", flat=True) if facts.exists() else events.values_list("key", flat=True)
    assert len(set(sources)) == made, "something is there twice"
    return {
        "entries": count,
        "file_bytes": path.stat().st_size,
        "stored_when_killed": after_kill,
        "facts": facts.count(),
        "events": events.count(),
        "outcomes": outcomes,
        "reviews": MemoryReview.objects.filter(agent=agent).count(),
        "seconds_to_kill": first.seconds,
        "seconds_after": second.seconds,
        "rows_per_second_at_begin": begin.rate(0, count * RATED),
        "rows_per_second_at_end": end.rate(count * (1 - RATED), count),
        "rows_per_second": round(count / (first.seconds + second.seconds), 1),
        "seconds_of_repeated_run": again.seconds,
        "memory_mib": max(first.mebibytes, second.mebibytes, again.mebibytes),
        "whole_agent": whole_agent(slug, path.with_suffix(".export")) if move else None,
    }


def whole_agent(slug: str, path: Path) -> dict[str, Any]:
    """Export the agent, and import it as another one."""
    out = run("exportagent", slug, "--out", str(path))
    back = run("importagent", str(path), "--slug", f"{slug}-copy")
    with path.open("rb") as file:
        lines = sum(1 for _ in file)
    return {
        "lines": lines,
        "bytes": path.stat().st_size,
        "export": {"seconds": out.seconds, "memory_mib": out.mebibytes},
        "import": {"seconds": back.seconds, "memory_mib": back.mebibytes},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument(
        "--move", action=argparse.BooleanOptionalAction, default=True, help="export and import it whole"
    )
    options = parser.parse_args()
    found = {}
    with system(log_level="ERROR") as running:
        for slug, write, count in (("talks", chatgpt_file, options.messages), ("facts", facts_file, options.memories)):
            if count:
                path = running.folder / f"{slug}.json"
                write(path, count)
                found[slug] = measure(slug, path, count, move=options.move)
                print(json.dumps({slug: found[slug]}, indent=1), flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "import_memory.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
