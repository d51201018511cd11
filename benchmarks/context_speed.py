"""Speed of POST /api/context: python -m benchmarks.context_speed [--sizes 10000] [--requests 200]

An agent with that many memories (of a hundred, 90 are events in loops of 20, 7 facts and one each of the other types,
besides an identity, facts about the user and censors) among others, a web server with two processes of eight threads,
and contexts that are logged as in production. Stages are the engine's own figures from the answers.

"bare" is what the engine cannot do without: embedding the question, and the statements of its search, run in this
process between the requests of the one client, so that both meet the same machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import cycle, pairwise
from typing import Any

import numpy as np

from benchmarks.latency import SEED, post, queries_made, texts_made, vectors_borrowed
from benchmarks.system import PROJECT, RESULTS, Client, System, collections_index, system, tied

CLIENTS = (1, 4, 8, 16)
WARM = 20
SESSION = "speed"
ANALYSED = 500
"""So many memories are enough to plan the rest by."""


def filled(running: System, size: int, others: int) -> Client:
    """An agent of `size` memories, ready to be asked."""
    from django.db import connection, transaction

    from identity.models import Agent
    from identity.principal import Principal
    from memory.embedding import embedder_named
    from memory.services.censors import censor_create
    from memory.services.decisions import decision_record
    from memory.services.episodes import episode_close, episode_open
    from memory.services.facts import fact_learn
    from memory.services.procedures import procedure_create

    by = Principal.of_system("benchmark")
    client = running.agent("speed")
    agent = Agent.objects.get(slug="speed")
    texts = texts_made(size, SEED + size)
    base = embedder_named("local").embed_documents(texts[:1000])
    post(client, texts[: size * 90 // 100], "events")
    with transaction.atomic():
        for place, text in enumerate(texts[size * 90 // 100 :]):
            who = text.split(":", 1)[0]
            kind = place % 10
            if kind == 0:
                decision_record(agent=agent, description=text, confidence=0.8, by=by)
            elif kind == 1:
                procedure_create(agent=agent, name=f"Procedure {place}", description=text, by=by)
            elif kind == 2:
                episode = episode_open(agent=agent, title=text[:80], by=by)
                episode_close(episode=episode, summary=text, outcome="success", by=by)
            else:
                fact_learn(agent=agent, content=text, subject=who, category="technical", by=by)
            if place == ANALYSED:
                # In a transaction of its own size nothing else tells the planner that the tables are no longer empty.
                with connection.cursor() as cursor:
                    cursor.execute("ANALYZE")
        for place in range(10):
            fact_learn(agent=agent, content=f"Ann likes {texts[place]}", subject="Ann", category="preference", by=by)
        for word in ("password", "secret"):
            censor_create(agent=agent, pattern=word, severity="block", reason="It is nobody's business.", by=by)
    vectors_borrowed(base, size)
    for number in range(others):
        other = running.agent(f"other-{number}")
        post(other, texts_made(max(size // 10, 100), SEED + number), f"o{number}")
        vectors_borrowed(base, number)
    collections_index(clean="")
    return client


def timed(client: Client, query: str) -> tuple[float, dict[str, Any]]:
    began = time.perf_counter()
    answer = client.post("/context", {"session_id": SESSION, "input": query})
    return (time.perf_counter() - began) * 1000, answer


def bare(query: str) -> dict[str, float]:
    """Milliseconds of the embedding and of the search's statements, in this process."""
    from identity.models import Agent
    from memory.embedding import embedder_named
    from memory.models import GLOBAL
    from memory.persona import ActorMemory
    from memory.policy import PROFILE_CATEGORIES
    from memory.search.fusion import rarest_lexemes
    from memory.search.query_word_counts import counts_read
    from memory.search.request import SearchRequest
    from memory.search.row_retrieval import TUNING, candidates_fetch, lexical_fetch
    from nousweb.lib.prepared_statements import session_settings_set

    view = ActorMemory(Agent.objects.get(slug="speed"))
    types = ["decision", "fact", "procedure", "episode", "event"]
    request = SearchRequest(query, GLOBAL, types=types, limit=100, exclude_categories=PROFILE_CATEGORIES)
    session_settings_set("search", TUNING)
    marks = [time.perf_counter()]
    counts = counts_read(view, query)
    lexemes = rarest_lexemes(counts.df, counts.statistics)
    marks.append(time.perf_counter())
    lexical = lexical_fetch(view, request, counts, lexemes)
    marks.append(time.perf_counter())
    vector = embedder_named(counts.model).embed_query(query)
    marks.append(time.perf_counter())
    candidates_fetch(view, request, counts, lexemes, lexical=lexical, vector=vector)
    marks.append(time.perf_counter())
    laps = [(after - before) * 1000 for before, after in pairwise(marks)]
    return dict(zip(("counts", "words", "embedding", "candidates"), laps, strict=True))


def percentiles(values: list[float]) -> dict[str, float]:
    return {"p50_ms": float(np.percentile(values, 50)), "p95_ms": float(np.percentile(values, 95))}


def alone(client: Client, requests: int, questions: Iterator[str]) -> dict[str, Any]:
    """One client, its stages, and the bare work beside it."""
    times: list[float] = []
    stages: list[dict[str, float]] = []
    least: list[dict[str, float]] = []
    tokens: list[int] = []
    for place in range(WARM + requests):
        query = next(questions)
        took, answer = timed(client, query)
        work = bare(query)
        if place >= WARM:
            times.append(took)
            stages.append(answer["timings"])
            least.append(work)
            tokens.append(answer["tokens"])
    engine = [sum(value for name, value in one.items() if "." not in name) for one in stages]
    names = sorted({name for one in stages for name in one})
    return {
        **percentiles(times),
        "engine_p50_ms": statistics.median(engine),
        "bare_p50_ms": statistics.median(sum(one.values()) for one in least),
        "ratio": statistics.median(times) / statistics.median(sum(one.values()) for one in least),
        "engine_ratio": statistics.median(engine) / statistics.median(sum(one.values()) for one in least),
        "stages_ms": {name: statistics.median(one.get(name, 0.0) for one in stages) for name in names},
        "bare_ms": {name: statistics.median(one[name] for one in least) for name in least[0]},
        "median_tokens": statistics.median(tokens),
    }


def together(token_client: Client, clients: int, requests: int, questions: Iterator[str]) -> dict[str, float]:
    """So many clients at once, each with a connection of its own, which ask the next of the `questions`."""
    times: list[float] = []
    errors: list[str] = []

    def work() -> None:
        client = token_client.again()
        for _ in range(requests // clients):
            try:
                times.append(timed(client, next(questions))[0])
            except (RuntimeError, OSError) as error:
                errors.append(str(error)[:200])

    threads = [threading.Thread(target=work, daemon=True) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    if errors:
        raise RuntimeError(f"{len(errors)} requests failed: {errors[0]}")
    return {**percentiles(times), "requests_per_second": len(times) / seconds}


def measured(size: int, requests: int, others: int) -> dict[str, Any]:
    """Everything about one size, on a system of its own."""
    with system(web_workers=2, threads=8, log_level="INFO") as running:
        from nousweb.database.postgres_roles import as_owner

        # Who fills the tables analyses them on the way, which only their owner may.
        with as_owner():
            client = filled(running, size, others)
        # Each is asked once in a minute: the product knows the vectors of what was just asked.
        questions = cycle(queries_made())
        load_before = os.getloadavg()[0]
        found: dict[str, Any] = {"memories": size, "alone": alone(client, requests, questions)}
        for clients in CLIENTS:
            found[f"clients_{clients}"] = together(client, clients, requests, questions)
        return {**found, "web_bytes": running.memory_of_web(), "load": [load_before, os.getloadavg()[0]]}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="10000")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--agents", type=int, default=9, help="other agents in the same tables")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    if options.one:
        print(json.dumps(measured(options.one, options.requests, options.agents)))
        return 0
    for size in (int(word) for word in options.sizes.split(",")):
        # Each in a process of its own: Django is set up once for one database.
        command = tied(sys.executable, "-m", "benchmarks.context_speed", "--one", str(size))
        command += ["--requests", str(options.requests), "--agents", str(options.agents)]
        finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
        found = json.loads(finished.stdout.strip().splitlines()[-1])
        (RESULTS / f"context-speed-{size}.json").write_text(json.dumps(found, indent=1))
        print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
