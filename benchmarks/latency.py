"""Speed and size over HTTP: python -m benchmarks.latency [--sizes 1000,10000]

For each size an agent with that many events, in loops of 20, and `--agents` others with a tenth of it each. Texts are
made of templates. The first 1,000 events are posted and embedded as any other, which gives the ingestion rate; the
rest are posted too, and get vectors of those texts with a little noise, so that 100,000 do not take hours. Queries are
real: each is embedded when it is asked.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.system import PROJECT, RESULTS, Client, System, collections_index, system, tied

QUERIES = 1_200
"""Different ones, of which a benchmark asks none twice: the product knows the vectors of what was just asked."""
ASKED = 200
WARM = 20
SEED = 20240
WHO = ["Ann", "Bob", "Carla", "Dmitri", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kofi", "Lena"]
WHAT = [
    "deployment",
    "migration",
    "invoice",
    "garden",
    "marathon",
    "telescope",
    "recipe",
    "passport",
    "bicycle",
    "guitar",
    "thesis",
    "kitchen",
    "database",
    "contract",
    "festival",
    "hospital",
    "library",
    "sailing",
    "painting",
    "orchestra",
    "compiler",
    "harbour",
    "vaccine",
    "election",
    "glacier",
    "dragonfly",
    "mortgage",
    "podcast",
    "greenhouse",
    "satellite",
    "sculpture",
    "theatre",
    "tournament",
    "university",
    "volcano",
    "warehouse",
    "workshop",
    "zoo",
]
HOW = [
    "was delayed by a storm",
    "went better than planned",
    "cost twice the budget",
    "was moved to another city",
    "needs a second review",
    "was praised by everyone",
    "broke on the first day",
    "is finally finished",
    "must be repeated",
    "was a quiet success",
    "surprised the neighbours",
    "ran out of paper",
    "won a small prize",
    "was cancelled without a reason",
]
WHERE = [
    "Lisbon",
    "Oslo",
    "Kyoto",
    "Nairobi",
    "Quito",
    "Ghent",
    "Perth",
    "Turin",
    "Riga",
    "Accra",
    "Austin",
    "Leeds",
    "Basel",
    "Hanoi",
    "Split",
    "Cork",
]
OPENING = (
    "{who}: The {what} in {where} {how}.",
    "{who}: Did you hear about the {what} near {where}? It {how}.",
    "{who}: Last week my {what} {how}, and {other} from {where} helped a lot.",
    "{who}: I told {other} that the {what} {how}. We talked for an hour in {where}, mostly about number {number}.",
)


def texts_made(count: int, seed: int) -> list[str]:
    """Distinct texts about many things."""
    dice = random.Random(seed)
    return [
        dice.choice(OPENING).format(
            who=dice.choice(WHO),
            other=dice.choice(WHO),
            what=dice.choice(WHAT),
            where=dice.choice(WHERE),
            how=dice.choice(HOW),
            number=number,
        )
        for number in range(count)
    ]


def queries_made() -> list[str]:
    """QUERIES questions, the same at each call."""
    dice = random.Random(SEED + 1)
    forms = (
        "What happened to the {what} in {where}?",
        "When did {who} talk about the {what}?",
        "Who helped with the {what}?",
        "Why was the {what} near {where} cancelled?",
    )
    made: dict[str, None] = {}
    while len(made) < QUERIES:
        made[dice.choice(forms).format(who=dice.choice(WHO), what=dice.choice(WHAT), where=dice.choice(WHERE))] = None
    return list(made)


def post(client: Client, texts: list[str], name: str) -> float:
    """Post texts as events; seconds taken."""
    began = time.perf_counter()
    for begin in range(0, len(texts), 1000):
        client.post(
            "/events",
            {
                "events": [
                    {"kind": "user_input", "content": text, "loop_id": f"{name}-{(begin + place) // 20}"}
                    for place, text in enumerate(texts[begin : begin + 1000])
                ]
            },
        )
    return time.perf_counter() - began


def vectors_borrowed(base: np.ndarray, seed: int) -> np.ndarray:
    """Write vectors for all pending rows: those of `base` with noise. Returns them in the order of the rows."""
    from django.db import connection

    from memory.services.search_index.row_embedding import active_model, vector_literal

    dice = np.random.default_rng(seed)
    model = active_model().name
    made = []
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT id FROM memory_searchitem WHERE status = 'pending' ORDER BY id LIMIT 2000")
            ids = [row[0] for row in cursor.fetchall()]
            if not ids:
                return np.concatenate(made) if made else np.zeros((0, base.shape[1]), np.float32)
            vectors = base[dice.integers(0, len(base), len(ids))] + dice.normal(0, 0.02, (len(ids), base.shape[1]))
            vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
            cursor.execute(
                "UPDATE memory_searchitem AS item SET embedding = new.vector::halfvec, model = %s, status = 'ready'"
                " FROM unnest(%s::bigint[], %s::text[]) AS new (id, vector)"
                " WHERE item.persona = 'actor' AND item.id = new.id",
                [model, ids, [vector_literal(vector) for vector in vectors]],
            )
            made.append(vectors)


def prepared(running: System, size: int, others: int) -> tuple[Client, dict[str, Any]]:
    """An agent of `size` events among others, ready to be asked, and what making it took."""
    from django.db import connection

    from memory.embedding import embedder_named

    texts = texts_made(size, SEED + size)
    client = running.agent(f"agent-{size}")
    first = min(1000, size)
    posting = post(client, texts[:first], f"s{size}")
    began = time.perf_counter()
    running.embed_all()
    embedding = time.perf_counter() - began
    base = embedder_named("local").embed_documents(texts[:first])
    post(client, texts[first:], f"t{size}")
    vectors_borrowed(base, size)
    for number in range(others):
        other = running.agent(f"other-{size}-{number}")
        post(other, texts_made(max(size // 10, 100), SEED + number), f"o{number}")
        vectors_borrowed(base, number)
    began = time.perf_counter()
    collections_index(clean="memory_searchitem_actor")
    building = time.perf_counter() - began
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_total_relation_size('memory_searchitem_actor'), count(*) FROM memory_searchitem_actor"
        )
        index_bytes, rows = cursor.fetchone()
    return client, {
        "events": size,
        "rows_in_table": rows,
        "post_events_per_second": first / posting,
        "ingest_events_per_second": first / (posting + embedding),
        "counts_and_index_seconds": building,
        "index_bytes_per_row": index_bytes / max(rows, 1),
    }


def asked(client: Client) -> dict[str, float]:
    """Latency over HTTP, one caller."""
    queries = queries_made()
    for query in queries[-WARM:]:
        client.get("/recall", q=query, limit=10)
    seconds = []
    for query in queries[:ASKED]:
        began = time.perf_counter()
        client.get("/recall", q=query, limit=10)
        seconds.append(time.perf_counter() - began)
    return {
        "p50_ms": float(np.percentile(seconds, 50)) * 1000,
        "p95_ms": float(np.percentile(seconds, 95)) * 1000,
    }


def stages(size: int) -> dict[str, float]:
    """Median milliseconds of each stage of a search, in this process."""
    from identity.models import Agent
    from memory.models import GLOBAL
    from memory.persona import ActorMemory
    from memory.search.request import SearchRequest
    from memory.search.search import search

    view = ActorMemory(Agent.objects.get(slug=f"agent-{size}"))
    laps = [search(view, SearchRequest(query, GLOBAL)).timings for query in queries_made()[:ASKED]]
    return {name: statistics.median(lap[name] for lap in laps[WARM:]) * 1000 for name in laps[0]}


def measured(size: int, others: int) -> dict[str, Any]:
    """Everything about one size, on a system of its own."""
    with system() as running:
        client, made = prepared(running, size, others)
        found: dict[str, Any] = {**made, "recall": asked(client), "stages_ms": stages(size)}
        found["web_bytes"] = running.memory_of_web()
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--agents", type=int, default=19, help="other agents in the same table")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    if options.one:
        print(json.dumps(measured(options.one, options.agents)))
        return 0
    by_size = {}
    for size in (int(word) for word in options.sizes.split(",")):
        # Each in a process of its own: Django is set up once for one database.
        command = tied(sys.executable, "-m", "benchmarks.latency", "--one", str(size), "--agents", str(options.agents))
        finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
        found = json.loads(finished.stdout.strip().splitlines()[-1])
        by_size[str(size)] = found
        print(json.dumps(found, indent=1))
    (RESULTS / "latency.json").write_text(json.dumps(by_size, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
