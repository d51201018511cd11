"""Importing many memories, killed and run again: python -m benchmarks.import_memory [--memories N] [--messages N]

A file of mem0's memories, and one of ChatGPT's messages, are imported by the command. When a third of a file is stored
the command is killed (SIGKILL), and run again; then once more. Nothing may be there twice, nothing may lack, and the
last run may store nothing. Rows a second are of the runs that stored; memory is the greatest of the command's process.
"""

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.system import PROJECT, RESULTS, system, tied

SEED = 14
KILLED_AT = 1 / 3
USERS = 500
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


def mem0_file(path: Path, count: int) -> None:
    dice = random.Random(SEED)
    with path.open("w") as file:
        file.write('{"results": [\n')
        for number in range(count):
            memory = {
                "id": f"memory-{number}",
                "memory": sentence(dice, number),
                "user_id": f"user-{number % USERS}",
                "metadata": {"topic": dice.choice(CHOICES["thing"])},
                "created_at": f"2026-0{dice.randint(1, 9)}-{dice.randint(10, 28)}T10:00:00+00:00",
            }
            file.write(json.dumps(memory) + (",\n" if number < count - 1 else "\n"))
        file.write("]}\n")


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


def run(command: list[str], *, stop: Callable[[], bool] = lambda: False) -> tuple[float, bool]:
    """Seconds that the command took, and whether `stop` had it killed."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(0.5)
        if stop():
            process.send_signal(signal.SIGKILL)
            process.wait()
            return time.perf_counter() - began, True
    if process.returncode:
        raise RuntimeError(f"{command[-1]} ended with {process.returncode}.")
    return time.perf_counter() - began, False


def measure(slug: str, path: Path, count: int) -> dict[str, Any]:
    """Import, kill, import again, and once more."""
    from identity.models import Agent
    from identity.principal import Principal
    from identity.services.agents import agent_create
    from memory.models import Event, Fact, ImportedMemory, MemoryReview

    agent: Agent = agent_create(slug=slug, name=slug, prompt="You are an agent.", by=Principal.of_system("benchmark"))
    command = tied(sys.executable, "manage.py", "importmemory", str(path), "--agent", slug)

    def stored() -> int:
        return ImportedMemory.objects.filter(agent=agent).count()

    first, killed = run(command, stop=lambda: stored() > count * KILLED_AT)
    after_kill = stored()
    assert killed
    assert 0 < after_kill < count
    second, _ = run(command)
    assert stored() == count, (stored(), count)
    again, _ = run(command)
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
        "seconds_to_kill": round(first, 1),
        "seconds_after": round(second, 1),
        "rows_per_second": round(count / (first + second), 1),
        "seconds_of_repeated_run": round(again, 1),
        "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=100_000)
    options = parser.parse_args()
    found = {}
    with system(log_level="ERROR") as running:
        for slug, write, count in (("talks", chatgpt_file, options.messages), ("facts", mem0_file, options.memories)):
            if count:
                path = running.folder / f"{slug}.json"
                write(path, count)
                found[slug] = measure(slug, path, count)
                print(json.dumps({slug: found[slug]}, indent=1), flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "import_memory.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
