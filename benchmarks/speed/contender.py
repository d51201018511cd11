"""A system of the tree in the current folder, which answers what each line of the input asks: run by benchmarks.speed.

python contender.py SIZE AGENTS [FOLDER]: an agent of SIZE memories among AGENTS others. FOLDER gets texts, vectors,
questions and the address of the database for the peers. The file belongs to no package, so that it also runs on the
benchmarks of an older tree. The first line printed names the processes, each other one answers a line such as
{"what": "context", "clients": 8, "requests": 200}.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.context_speed import filled
from benchmarks.ingestion import server_pid
from benchmarks.latency import SEED, queries_made, texts_made
from benchmarks.system import Client, system

Caller = Callable[[str], object]
WARM = 40


def caller_of(client: Client, what: str) -> Caller:
    """What one client calls with a question, on a connection of its own."""
    own = client.again()
    if what == "recall":
        return lambda query: own.get("/recall", q=query, limit=10)
    return lambda query: own.post("/context", {"session_id": "speed", "input": query})


def timed(callers: list[Caller], requests: int, questions: Iterator[str]) -> dict[str, Any]:
    """Milliseconds of each request, requests per second, and this process's CPU, of callers that call at once."""
    times: list[float] = []
    errors: list[str] = []

    def work(call: Caller) -> None:
        for _ in range(requests // len(callers)):
            began = time.perf_counter()
            try:
                call(next(questions))
            except (RuntimeError, OSError) as error:
                errors.append(str(error)[:200])
            times.append((time.perf_counter() - began) * 1000)

    threads = [threading.Thread(target=work, args=[call]) for call in callers]
    began, spent = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, cpu = time.perf_counter() - began, time.process_time() - spent
    return {"ms": times, "per_second": len(times) / seconds, "caller_cpu_seconds": cpu, "errors": errors}


def answers_given(answer: Callable[[dict[str, Any]], dict[str, Any]], **ready: Any) -> None:
    """Say that this process is `ready`, and answer each line of the input."""
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def peers_prepared(folder: Path, size: int) -> None:
    """What the peers need: texts as the agent's, vectors of a thousand of them with noise, and the database."""
    from memory.embedding import embedder_named

    texts = texts_made(size, SEED + size)
    base = embedder_named("local").embed_documents(texts[:1000])
    dice = np.random.default_rng(SEED)
    vectors = base[dice.integers(0, len(base), size)] + dice.normal(0, 0.02, (size, base.shape[1]))
    np.save(folder / "vectors.npy", (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32))
    (folder / "texts.json").write_text(json.dumps(texts))
    (folder / "queries.json").write_text(json.dumps(queries_made()))
    (folder / "url.txt").write_text(os.environ.get("DATABASE_OWNER_URL") or os.environ["DATABASE_URL"])


def main() -> None:
    """Make the system, then answer until the input ends."""
    size, others = int(sys.argv[1]), int(sys.argv[2])
    with system(web_workers=2, threads=8, log_level="INFO") as running:
        from nousweb.database.postgres_roles import as_owner

        with as_owner():
            client = filled(running, size, others)
        if sys.argv[3:]:
            peers_prepared(Path(sys.argv[3]), size)
        questions = cycle(queries_made())
        processes = {"web": running.web.pid, "postgres": server_pid()}
        for what in ("context", "recall"):
            timed([caller_of(client, what) for _ in range(8)], WARM, questions)

        def answer(asked: dict[str, Any]) -> dict[str, Any]:
            callers = [caller_of(client, asked["what"]) for _ in range(asked["clients"])]
            return timed(callers, asked["requests"], questions)

        answers_given(answer, processes=processes)


if __name__ == "__main__":
    main()
