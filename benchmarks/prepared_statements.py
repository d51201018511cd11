"""What prepared statements win: python -m benchmarks.prepared_statements [--size 10000] [--rounds 9] [--calls 40]

The same calls in one process, in rounds that alternate between ways to send the statements, so that all meet the
same machine. "plain" is Django as it comes, which writes the values into the text; "server_side_binding" is Django's
own setting with psycopg's `prepare_threshold`, under which querysets are still written to SQL at every call; "by hand"
is nousweb/lib/prepared_statements.py; "no cached querysets" is that without CachedQuery, "one insert" that without
instance_insert, and "text" that without the binary format.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from benchmarks.context_speed import SESSION, filled
from benchmarks.latency import queries_made
from benchmarks.system import system

WARM = 5


@contextmanager
def django_cursor(*, kind: str = "text") -> Iterator[Any]:
    from django.db import connection

    with connection.cursor() as cursor:
        yield cursor


def rows_of_queryset(query: Any, shape: Any, **values: Any) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(*query._build(shape, **values).query.sql_with_params())
        return list(cursor.fetchall())


def saved(row: Any, **_: Any) -> bool:
    from django.db import connection, transaction

    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT nous_agent_hold(%s::bigint)", [row.agent_id])
        row.save(force_insert=True)
    return True


def calls(slug: str, secret: str) -> dict[str, Callable[[str], object]]:
    """What is measured, each with a question, by the token with this secret."""
    from context.engine.analysis.request import ContextRequest
    from context.services.context import context_assemble
    from identity.models import Agent
    from identity.principal import Principal
    from identity.services.tokens import token_authenticate
    from memory.models import GLOBAL
    from memory.persona import ActorMemory
    from memory.search.request import SearchRequest
    from memory.search.search import search

    agent = Agent.objects.get(slug=slug)
    found = token_authenticate(secret)
    assert found is not None
    by = Principal.of_token(found)
    return {
        "token": lambda _: token_authenticate(secret),
        "recall": lambda query: search(ActorMemory(agent), SearchRequest(query, GLOBAL)),
        "context": lambda query: context_assemble(
            agent=agent, request=ContextRequest(session_id=SESSION, input=query), by=by
        ),
    }


@contextmanager
def way(name: str) -> Iterator[None]:
    """Send statements in this way, by a new connection."""
    from django.db import connection

    from nousweb.lib import prepared_statements as prepared

    own = connection.settings_dict["OPTIONS"]
    asked = own | {"server_side_binding": name == "server_side_binding"}
    if name == "plain":
        asked["prepare_threshold"] = None
    patches: list[Any] = [patch.dict(connection.settings_dict, {"OPTIONS": asked})]
    cursor, rows, combined, text_of, insert = (
        patch.object(prepared, "prepared_cursor", django_cursor),
        patch.object(prepared.CachedQuery, "rows", rows_of_queryset),
        patch.object(prepared, "_combined_statement", prepared._combined_statement.__wrapped__),
        patch.object(prepared.CachedQuery, "text", prepared.CachedQuery._written),
        patch("context.services.context.instance_insert", saved),
    )
    uncached = [rows, combined, text_of]
    by_hand = prepared.prepared_cursor
    text = patch.object(prepared, "prepared_cursor", lambda *, kind="text": by_hand())
    patches += {
        "plain": [cursor, *uncached, insert],
        "server_side_binding": [cursor, *uncached, insert],
        "by hand": [],
        "no cached querysets": uncached,
        "one insert": [insert],
        "text": [text],
    }[name]
    connection.close()
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in reversed(patches):
            one.stop()
        connection.close()


WAYS = ("plain", "server_side_binding", "by hand", "no cached querysets", "one insert", "text")


def measured(size: int, rounds: int, each: int) -> dict[str, dict[str, float]]:
    """Median milliseconds of each call in each way, on a store of that size."""
    with system(web_workers=1, threads=2, log_level="WARNING") as running:
        from nousweb.database.postgres_roles import as_owner

        with as_owner():
            client = filled(running, size, 0)
        return compared(calls("speed", client.token), rounds, each)


def compared(measures: dict[str, Callable[[str], object]], rounds: int, each: int) -> dict[str, dict[str, float]]:
    """Median milliseconds of each of `measures` in each way."""
    from memory.embedding import query_prefetch
    from memory.embedding.query_prefetch import RecentQueries

    times: dict[str, dict[str, list[float]]] = {}
    queries = queries_made()
    # Each way asks the same questions.
    query_prefetch._recent = RecentQueries(max_size=1, seconds=0)
    for turn in range(rounds):
        for name in WAYS:
            with way(name):
                for what, call in measures.items():
                    laps = times.setdefault(what, {}).setdefault(name, [])
                    for place in range(WARM + each):
                        began = time.perf_counter()
                        call(queries[(turn * each + place) % len(queries)])
                        if place >= WARM:
                            laps.append((time.perf_counter() - began) * 1000)
        print(json.dumps({"rounds": turn + 1, **medians(times)}), file=sys.stderr, flush=True)
    return medians(times)


def medians(times: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    return {
        what: {name: round(statistics.median(laps), 3) for name, laps in ways.items()} for what, ways in times.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=40)
    options = parser.parse_args()
    print(json.dumps(measured(options.size, options.rounds, options.calls), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
