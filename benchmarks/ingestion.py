"""Storing and embedding messages: python -m benchmarks.ingestion [--short 2000] [--long 200]

Messages are posted over HTTP, 200 a call, and embedded as the worker does it, in this process. Seconds of CPU are
those of the web server, of PostgreSQL and of this process together, so they say what a message costs whatever else the
machine does; two cores that do nothing else can store and embed at most two divided by that. A message is found by
meaning once its whole text has a vector; then long ones get the vectors of their passages.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.latency import texts_made
from benchmarks.system import RESULTS, Client, System, system

LONG_CHARACTERS = 4_000
A_CALL = 200
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: set[int]) -> float:
    """Of these processes and their children, those that have ended too."""
    parents: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            # The parent, then user and system time of it and of its children that have ended: the fourth and the
            # fourteenth to the seventeenth of proc_pid_stat(5).
            parents[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS
    known = set(pids)
    while more := {pid for pid, (parent, _) in parents.items() if parent in known} - known:
        known |= more
    return sum(spent for pid, (_, spent) in parents.items() if pid in known)


def server_pid() -> int:
    """The process of PostgreSQL that starts all others."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (backend,) = cursor.fetchone()
    return int(Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1])


def ingested(running: System, client: Client, texts: list[str]) -> dict[str, Any]:
    from memory.models import IndexStatus, SearchItem
    from memory.services.search_index.row_embedding import embed_pending_rows

    processes = {running.web.pid, server_pid()}
    spent, own, began = cpu_seconds(processes), time.process_time(), time.perf_counter()

    def cost() -> float:
        return (cpu_seconds(processes) - spent + time.process_time() - own) / len(texts)

    for begin in range(0, len(texts), A_CALL):
        events = [{"kind": "user_input", "content": text, "loop_id": "bench"} for text in texts[begin : begin + A_CALL]]
        client.post("/events", {"events": events})
    stored = time.perf_counter()
    while SearchItem.objects.filter(status=IndexStatus.PENDING, model="").exists():
        embed_pending_rows(seconds=0)
    found_cost = cost()
    running.embed_all()
    done, whole_cost = time.perf_counter(), cost()
    return {
        "messages": len(texts),
        "characters": round(sum(map(len, texts)) / len(texts)),
        "stored_per_second": len(texts) / (stored - began),
        "stored_and_embedded_per_second": len(texts) / (done - began),
        "found_per_second_on_two_free_cores": 2 / found_cost,
        "cpu_milliseconds_per_message": whole_cost * 1000,
        "per_second_on_two_free_cores": 2 / whole_cost,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", type=int, default=2_000)
    parser.add_argument("--long", type=int, default=200)
    options = parser.parse_args()
    with system() as running:
        client = running.agent("ingestion")
        ingested(running, client, texts_made(64, 1))  # Loads the model.
        short = texts_made(options.short, 2)
        sentences = texts_made(options.long * 60, 3)
        long = [" ".join(sentences[60 * one : 60 * one + 60])[:LONG_CHARACTERS] for one in range(options.long)]
        found = {name: ingested(running, client, texts) for name, texts in (("short", short), ("long", long))}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "ingestion.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
