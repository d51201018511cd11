"""Many agents with little memory each: python -m benchmarks.many_agents [--agents 1000] [--callers 2]

Each agent records two turns, learns a fact, contradicts it and asks for a context; when all rows have their vectors,
each asks again and searches. Every prompt must hold the agent's own fact and no other's. BENCH_DATABASE_URL names
another, empty database, which `manage.py distribute` may have distributed.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.system import RESULTS, Client, System, system

Agent = tuple[int, Client]
KINDS = ("agent", "events", "fact", "contradiction", "context", "context with vectors", "recall")


def code_of(number: int) -> str:
    """A word that only this agent knows."""
    return f"code{number:05d}x"


def first_day(one: Agent, timed: Callable[[str, Callable[[], Any]], Any]) -> None:
    """What an agent does before its memory has vectors."""
    number, client = one
    words = [("user_input", f"My locker opens with {code_of(number)}."), ("actor_output", "I will keep that in mind.")]
    events = [{"loop_id": "first", "kind": kind, "content": content} for kind, content in words]
    timed("events", lambda: client.post("/events", {"events": events}))
    fact = {"content": f"The locker opens with {code_of(number)}.", "subject": "locker"}
    timed("fact", lambda: client.post("/facts", fact))
    other = {"content": f"The locker does not open with {code_of(number)}.", "subject": "locker"}
    timed("contradiction", lambda: client.post("/facts", other))
    ask(one, timed, "context")


def ask(one: Agent, timed: Callable[[str, Callable[[], Any]], Any], kind: str) -> None:
    """One context, which must hold the agent's own word and no other agent's."""
    number, client = one
    body = {"session_id": "s", "input": "How does the locker open?"}
    prompt = timed(kind, lambda: client.post("/context", body))["system_prompt"]
    words = {word.strip(".,;:()\"'") for word in prompt.split() if word.startswith("code")}
    if words != {code_of(number)}:
        raise SystemExit(f"The prompt of agent {number} has {sorted(words)}.")


def second_day(one: Agent, timed: Callable[[str, Callable[[], Any]], Any]) -> None:
    """What it asks when its memory has vectors."""
    ask(one, timed, "context with vectors")
    found = timed("recall", lambda: one[1].get("/recall", q="Which code has the locker?"))["items"]
    if not found:
        raise SystemExit(f"Agent {one[0]} found nothing.")


def rows_by_server() -> dict[str, int]:
    """How many facts lie on each server of a cluster."""
    from django.db import connection

    from nousweb.lib.distribution import is_distributed

    if not is_distributed():
        return {}
    with connection.cursor() as cursor:
        cursor.execute("SET citus.show_shards_for_app_name_prefixes = '*'")
        cursor.execute(
            "SELECT nodename || ':' || nodeport, sum(result::bigint) FROM run_command_on_shards("
            "'memory_fact', 'SELECT count(*) FROM %s') JOIN pg_dist_shard_placement USING (shardid) GROUP BY 1"
        )
        return {name: int(number) for name, number in cursor.fetchall()}


def measured(running: System, number: int, callers: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}

    def timed(kind: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        answer = work()
        seconds[kind].append(time.perf_counter() - began)
        return answer

    began = time.perf_counter()
    agents = [(one, timed("agent", lambda one=one: running.agent(f"agent-{one}"))) for one in range(number)]
    with ThreadPoolExecutor(callers) as pool:
        for _ in pool.map(lambda one: first_day(one, timed), agents):
            pass
        told = time.perf_counter() - began
        began = time.perf_counter()
        ready = running.embed_all()
        embedded = time.perf_counter() - began
        for _ in pool.map(lambda one: second_day(one, timed), agents):
            pass
    return {
        "agents": number,
        "callers": callers,
        "told_seconds": round(told, 1),
        "rows_with_vectors": ready,
        "embedding_seconds": round(embedded, 1),
        "milliseconds": {kind: quantiles(found) for kind, found in seconds.items()},
        "facts_by_server": rows_by_server(),
    }


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """The 50th and the 95th percentile, in milliseconds."""
    parts = statistics.quantiles(seconds, n=20)
    return {"p50": round(parts[9] * 1000, 1), "p95": round(parts[18] * 1000, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--callers", type=int, default=2)
    options = parser.parse_args()
    with system() as running:
        found = measured(running, options.agents, options.callers)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "many_agents.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
