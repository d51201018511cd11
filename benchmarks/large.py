"""Recall and contexts of one agent with many memories: python -m benchmarks.large [--sizes 10000,100000,1000000]

Rows are loaded by COPY, as the product would have written them: a million posted one after another would take a day.
Texts are made of templates and of words drawn from a vocabulary of 60,000 by Zipf's law, so that there are common words
and rare ones. Vectors are those of 2,000 such texts with noise, so they say nothing of what is found, only of how long
it takes. Queries are real: asked over HTTP, each embedded when it is asked, a third of them with a rare word.

Each size is measured three times: with neither counts nor vector index, as right after the rows arrived; while the
vector index is built; and with both.
"""

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np

from benchmarks.latency import queries_made, stages, texts_made
from benchmarks.system import PROJECT, RESULTS, Client, System, system, tied

VOCABULARY = 60_000
BASE = 2_000
"""Texts that are embedded; the vectors of the others are theirs with noise."""
NOISE = 0.6
CHUNK = 20_000
ASKED = 100
ASKED_WHILE_BUILDING = 40
WARM = 5
LOOP = 20
SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


def words_made() -> list[str]:
    """Distinct words that no language has."""
    dice = random.Random(1)
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        found["".join(dice.choices(SYLLABLES, k=dice.choice((2, 3, 3, 4))))] = None
    return list(found)


def texts_varied(count: int, words: list[str]) -> Iterator[str]:
    dice = np.random.default_rng(2)
    for begin in range(0, count, CHUNK):
        texts = texts_made(min(CHUNK, count - begin), begin)
        drawn = (dice.zipf(1.1, (len(texts), 6)) - 1) % len(words)
        for text, places in zip(texts, drawn.tolist(), strict=True):
            yield f"{text} Noted: {' '.join(words[place] for place in places)}."


def rows_binary(first: int, vectors: np.ndarray) -> bytes:
    """Rows of a number and a halfvec as COPY reads them in its binary format."""
    dimension = vectors.shape[1]
    rows = np.zeros(
        len(vectors),
        dtype=[
            ("fields", ">i2"), ("n_size", ">i4"), ("n", ">i8"), ("size", ">i4"), ("dim", ">i2"), ("zero", ">i2"),
            ("vector", ">f2", (dimension,)),
        ],
    )  # fmt: skip
    rows["fields"], rows["n_size"], rows["n"] = 2, 8, np.arange(first, first + len(vectors))
    rows["size"], rows["dim"], rows["vector"] = 4 + 2 * dimension, dimension, vectors
    return rows.tobytes()


INSERTS = (
    """
INSERT INTO memory_event (id, agent_id, persona, ts, recorded_at, loop_id, kind, visibility, content, metadata, project,
                          task)
SELECT (%(agent)s::bigint << 36) + n * 2, %(agent)s, 'actor', %(since)s::timestamptz + n * interval '1 second', now(),
       'loop-' || n / %(loop)s, 'user_input', 'default', text, '{}', '', ''
FROM loaded
""",
    """
INSERT INTO memory_longtermentry (event_id, agent_id, persona, loop_id, text, importance, created_at)
SELECT (%(agent)s::bigint << 36) + n * 2, %(agent)s, 'actor', 'loop-' || n / %(loop)s, text, 0.5, now() FROM loaded
""",
    """
INSERT INTO memory_searchitem (agent_id, persona, item_type, item_id, kind, scope, subject, loop_id, position,
                               importance, happened_at, recorded_at, text, embedding, model, status, passages)
SELECT %(agent)s, 'actor', 'event', ((%(agent)s::bigint << 36) + n * 2)::text, 'user_input', 'global',
       split_part(text, ':', 1), 'loop-' || n / %(loop)s, (%(agent)s::bigint << 36) + n * 2, 0.5,
       %(since)s::timestamptz + n * interval '1 second', now(), text, vector, %(model)s, 'ready', 0
FROM loaded JOIN loaded_vector USING (n)
""",
)


def loaded(slug: str, size: int) -> dict[str, float]:
    """Fill the memory of an agent; seconds of it, and of building the index of words."""
    from django.db import connection

    from identity.models import Agent
    from memory.services.search_index.row_embedding import active_model
    from nousweb.database.postgres_roles import as_owner

    agent = Agent.objects.get(slug=slug).pk
    model = active_model().name
    words = words_made()
    texts = texts_varied(size, words)
    from memory.embedding import embedder_named

    base = embedder_named(model).embed_documents(texts_made(BASE, 7))
    dice = np.random.default_rng(3)
    values = {"agent": agent, "loop": LOOP, "since": "2024-01-01T00:00:00Z", "model": model}
    began = time.perf_counter()
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_indexdef('memory_searchitem_words'::regclass)")
        (definition,) = cursor.fetchone()
        cursor.execute("DROP INDEX memory_searchitem_words")
        cursor.execute("CREATE TEMPORARY TABLE loaded (n bigint, text text)")
        cursor.execute("CREATE TEMPORARY TABLE loaded_vector (n bigint, vector halfvec)")
        for first in range(1, size + 1, CHUNK):
            count = min(CHUNK, size + 1 - first)
            cursor.execute("TRUNCATE loaded, loaded_vector")
            with cursor.copy("COPY loaded FROM STDIN") as copy:
                for number in range(first, first + count):
                    copy.write_row((number, next(texts)))
            spread = dice.standard_normal((count, base.shape[1]), dtype=np.float32) * NOISE / base.shape[1] ** 0.5
            vectors = base[dice.integers(0, len(base), count)] + spread
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            with cursor.copy("COPY loaded_vector FROM STDIN WITH (FORMAT BINARY)") as copy:
                copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows_binary(first, vectors) + b"\xff\xff")
            cursor.execute("ANALYZE loaded")
            cursor.execute("ANALYZE loaded_vector")
            for statement in INSERTS:
                cursor.execute(statement, values)
            sys.stderr.write(f"\r{first + count - 1:,} of {size:,} rows")
        sys.stderr.write("\n")
        cursor.execute(
            "INSERT INTO memory_eventsequence (agent_id, persona, last) VALUES (%s, 'actor', %s)"
            " ON CONFLICT (agent_id, persona) DO UPDATE SET last = excluded.last",
            [agent, size],
        )
        rows_done = time.perf_counter()
        cursor.execute(definition.replace(" ON ONLY ", " ON "))
        words_done = time.perf_counter()
        for table in ("memory_event", "memory_longtermentry", "memory_searchitem"):
            cursor.execute(f"VACUUM ANALYZE {table}")
    return {"load_seconds": rows_done - began, "word_index_seconds": words_done - rows_done}


def queries_varied() -> Iterator[str]:
    """Questions without an end. None comes twice in a minute: the product knows the vectors of what was just asked."""
    words, dice = words_made(), random.Random(4)
    for place, query in enumerate(cycle(queries_made())):
        yield f"{query[:-1]}, {dice.choice(words[2000:])}?" if place % 3 == 0 else query


def timed(client: Client, count: int, queries: Iterator[str]) -> dict[str, float]:
    """Milliseconds of recalls and contexts, one caller."""
    found: dict[str, float] = {}
    calls: dict[str, Any] = {
        "recall": lambda query: client.get("/recall", q=query, limit=10),
        "context": lambda query: client.post("/context", {"session_id": "bench", "input": query}),
    }
    for name, call in calls.items():
        for query in islice(queries, WARM):
            call(query)
        seconds = []
        for query in islice(queries, count):
            began = time.perf_counter()
            call(query)
            seconds.append(time.perf_counter() - began)
        for share in (50, 95):
            found[f"{name}_p{share}_ms"] = float(np.percentile(seconds, share)) * 1000
    return found


def measured(size: int) -> dict[str, Any]:
    with system() as running:
        return _measured(running, size)


def _measured(running: System, size: int) -> dict[str, Any]:
    from django.db import connection, connections

    from memory.search.query_word_counts import statistics_refresh
    from memory.search.vector_indexes import vector_indexes_keep
    from nousweb.database.postgres_roles import as_owner

    slug = f"agent-{size}"
    client = running.agent(slug)
    found: dict[str, Any] = {"items": size, **loaded(slug, size)}
    queries = queries_varied()
    found["as_loaded"] = timed(client, ASKED_WHILE_BUILDING, queries)
    began = time.perf_counter()
    statistics_refresh()
    found["count_seconds"] = time.perf_counter() - began
    built: list[float] = []

    def build() -> None:
        with as_owner():
            began = time.perf_counter()
            vector_indexes_keep()
            built.append(time.perf_counter() - began)
        connections.close_all()

    building = threading.Thread(target=build)
    building.start()
    found["while_building"] = timed(client, ASKED_WHILE_BUILDING, queries)
    found["built_before_the_end"] = not building.is_alive()
    building.join()
    found["vector_index_seconds"] = built[0]
    found["indexed"] = timed(client, ASKED, queries)
    found["stages_ms"] = stages(size)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_total_relation_size('memory_searchitem_actor'),"
            " (SELECT coalesce(sum(pg_relation_size(indexrelid)), 0) FROM pg_index"
            "  WHERE indrelid = 'memory_searchitem_actor'::regclass"
            "  AND pg_get_indexdef(indexrelid) LIKE '%USING hnsw%')"
        )
        found["index_bytes"], found["vector_index_bytes"] = map(int, cursor.fetchone())
        cursor.execute("SELECT pg_database_size(current_database())")
        (found["database_bytes"],) = cursor.fetchone()
    found["vacuum_seconds"], found["reindex_words_seconds"] = maintained()
    found["after_upkeep"] = timed(client, ASKED, queries)
    found["web_bytes"] = running.memory_of_web()
    return found


def maintained() -> tuple[float, float]:
    """Seconds of VACUUM of what is searched after one row of a hundred has changed, and of building the index of words
    again beside the searches."""
    from django.db import connection

    from nousweb.database.postgres_roles import as_owner

    with as_owner(), connection.cursor() as cursor:
        cursor.execute("UPDATE memory_searchitem SET importance = 0.6 WHERE id % 100 = 0")
        began = time.perf_counter()
        cursor.execute("VACUUM memory_searchitem")
        vacuumed = time.perf_counter()
        cursor.execute(
            "SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'memory_searchitem_actor'::regclass"
            " AND pg_get_indexdef(indexrelid) LIKE '%USING gin%'"
        )
        for (name,) in cursor.fetchall():
            cursor.execute(f"REINDEX INDEX CONCURRENTLY {name}")
    return vacuumed - began, time.perf_counter() - vacuumed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one)))
        return 0
    RESULTS.mkdir(parents=True, exist_ok=True)
    for size in (int(word) for word in options.sizes.split(",")):
        command = tied(sys.executable, "-m", "benchmarks.large", "--one", str(size))
        finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
        found = json.loads(finished.stdout.strip().splitlines()[-1])
        (RESULTS / f"large-{size}.json").write_text(json.dumps(found, indent=1))
        print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
