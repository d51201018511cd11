"""The two statements of a search: counts about the collection, then everything that the scoring looks at; and one more
for explanations, about what is no longer told.

All read the physical tables of the view only, and of these the agent's own rows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import connection

from memory.embedding.protocol import Vectors
from memory.persona import PersonaMemory
from memory.search.request import SearchRequest
from memory.search.scoring import rarity

HITS = 50
"""Candidates of each of the two searches, before neighbours."""
LEXICAL_ROWS = 4_000
"""About as many rows as the lexical search ranks; the commonest words are left out when there would be more."""
COUNTED = 2_000
"""A word that this many items hold is common: counted in the background (memory.search.statistics), not here."""
MAX_LEXEMES = 64
RETIRED_ROWS = 30
"""So many retired rows are scored for an explanation, the likeliest by meaning and by words."""

PERSONA_OF_TABLE = {
    "memory_searchitem_actor": "actor",
    "memory_searchitem_subconscious": "subconscious",
}


@dataclass(frozen=True, slots=True)
class Counts:
    """What is known of the collection before the search: `model` is the embedding model of its vectors, if any.

    `approximate` says that every table has an approximate index of that model's vectors.
    """

    model: str
    items: int
    mean_words: float
    df: Mapping[str, int]
    approximate: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search made of its query, for another look at the same collection."""

    request: SearchRequest
    counts: Counts
    vector: Vectors | None


def _source(view: PersonaMemory, columns: str, condition: str) -> str:
    """A subquery over the physical tables of the view and no other; both condition and columns are our own text."""
    parts = [
        f"SELECT {columns} FROM {table} WHERE persona = '{PERSONA_OF_TABLE[table]}' AND agent_id = {int(view.agent.pk)}"  # noqa: S608
        f" AND {condition}"
        for table in view.search_tables
    ]
    return "(" + " UNION ALL ".join(parts) + ")"


def counts_read(view: PersonaMemory, query: str) -> Counts:
    """Counts over the view's collections, and of the query's lexemes in them: one statement."""
    agent = int(view.agent.pk)
    counted = _source(view, "1 AS one", f"nous_agent_lexemes(agent_id, terms) && ARRAY['{agent}:' || asked.lexeme]")
    statement = f"""
WITH asked AS MATERIALIZED (
    SELECT lexeme FROM unnest(to_tsvector('english', %(query)s)) ORDER BY positions[1], lexeme LIMIT {MAX_LEXEMES}
), held AS MATERIALIZED (
    SELECT items, mean_words, common, vector_index_model FROM memory_searchstatistics
    WHERE agent_id = {agent} AND persona = ANY(%(personas)s)
)
SELECT
    (SELECT name FROM memory_embeddingmodel WHERE state = 'active'),
    (SELECT json_agg(json_build_array(items, mean_words, vector_index_model)) FROM held),
    (SELECT json_object_agg(lexeme, CASE
        WHEN EXISTS (SELECT 1 FROM held WHERE common ? lexeme)
        THEN (SELECT sum((common ->> lexeme)::integer) FROM held)
        ELSE (SELECT count(*) FROM (SELECT one FROM {counted} AS matching LIMIT {COUNTED}) AS few) END) FROM asked),
    CASE WHEN EXISTS (SELECT 1 FROM held) THEN NULL ELSE
        (SELECT json_build_array(count(*), coalesce(avg(words), 0)) FROM {_source(view, "words", "active")} AS every)
    END
"""  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(statement, {"query": query, "personas": list(view.personas)})
        model, held, df, every = cursor.fetchone()
    if held:
        items = sum(row[0] for row in held)
        mean = sum(row[0] * row[1] for row in held) / max(items, 1)
    else:
        items, mean = int(every[0]), float(every[1])
    indexed = bool(held) and len(held) == len(view.search_tables) and all(row[2] == model and model for row in held)
    return Counts(model or "", items, mean, {word: int(n) for word, n in (df or {}).items()}, indexed)


def candidates_fetch(
    view: PersonaMemory, request: SearchRequest, counts: Counts, vector: Vectors | None
) -> list[dict[str, Any]]:
    """Hits of the dense and the lexical search and their neighbours, one statement for all types of items.

    Each row has what the scoring looks at: `cosine` (None without a vector), `held` (for each lexeme of `counts.df` in
    order whether the item has it), `wanted` (whether the filters let it pass; neighbours of hits may not) and for hits
    `before` and `after`, the ids of up to two neighbours on each side, the nearest first.
    """
    statement, values = _fetch_statement(view, request, counts, vector)
    # Starting parallel workers takes longer than these short scans. An approximate scan goes on until enough rows
    # have passed the filters, in the exact order of their distance. Sent together, both statements are one
    # transaction and one round trip.
    settings = (
        "SELECT set_config('max_parallel_workers_per_gather', '0', true),"
        f" set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', '{HITS}', true)"
    )
    with connection.cursor() as cursor:
        cursor.execute(f"{settings}; {statement}", values)
        cursor.nextset()
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def details_fetch(view: PersonaMemory, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The other columns of a few rows, by id."""
    columns = "id, kind, category, scope, subject, tags::json AS tags, importance, happened_at, recorded_at"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {_source(view, columns, 'id = ANY(%(ids)s)')} AS item", {"ids": list(ids)})  # noqa: S608
        names = [column.name for column in cursor.description or ()]
        return {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}


def retired_fetch(view: PersonaMemory, asked: Asked) -> list[dict[str, Any]]:
    """The likeliest of what has been replaced or retired, as of the request's moment, with what the scoring looks at.

    Of facts also their clocks and the fact that replaced them. Categories that searches leave out are included: what is
    always told is replaced like anything else.
    """
    request, counts, vector = asked.request, asked.counts, asked.vector
    wanted, values = _wanted(replace(request, exclude_categories=()))
    gone = "NOT active"
    if request.as_of is not None:
        gone = "retired_at <= %(as_of)s AND recorded_at <= %(as_of)s"
        values["as_of"] = request.as_of
    lexemes = list(counts.df)
    values |= {f"word{place}": _quoted(word) for place, word in enumerate(lexemes)}
    values |= {"agent": view.agent.pk, "personas": list(view.personas), "model": counts.model}
    held = f"ARRAY[{', '.join(f'terms @@ {_tsquery(place)}' for place in range(len(lexemes)))}]::boolean[]"
    cosine = "NULL::double precision"
    if vector is not None:
        values["vector"] = "[" + ",".join(f"{number:.6g}" for number in vector) + "]"
        size = f"halfvec({len(vector)})"
        cosine = f"CASE WHEN model = %(model)s THEN -(embedding::{size} <#> %(vector)s::{size}) END"
    columns = f"""
        id, item_type, item_id, kind, category, scope, subject, tags::json AS tags, importance, happened_at,
        recorded_at, retired_at, text, words, names, says_time, {cosine} AS cosine, {held} AS held"""
    statement = f"""
WITH gone AS MATERIALIZED (
    SELECT * FROM {_source(view, columns, f"{gone} AND {wanted}")} AS item
    ORDER BY coalesce(cosine, 0) + cardinality(array_positions(held, true)) / greatest(cardinality(held), 1)::float8
        DESC, id
    LIMIT {RETIRED_ROWS}
)
SELECT gone.*, fact.content, fact.valid_from, fact.valid_until, fact.invalidated_at IS NOT NULL AS found_wrong,
    heir.id AS successor, heir.content AS successor_text
FROM gone
LEFT JOIN memory_fact AS fact ON fact.id = CASE WHEN item_type = 'fact' THEN item_id::uuid END
    AND fact.agent_id = %(agent)s AND fact.persona = ANY(%(personas)s)
LEFT JOIN memory_fact AS heir ON heir.id = fact.superseded_by_id
    AND heir.agent_id = %(agent)s AND heir.persona = ANY(%(personas)s)
ORDER BY gone.id
"""  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def candidates_explain(view: PersonaMemory, request: SearchRequest, counts: Counts, vector: Vectors | None) -> Any:
    """The query plan of `candidates_fetch` as PostgreSQL's JSON."""
    statement, values = _fetch_statement(view, request, counts, vector)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", values)
        plan = cursor.fetchone()[0]
    return json.loads(plan) if isinstance(plan, str) else plan


def _fetch_statement(
    view: PersonaMemory, request: SearchRequest, counts: Counts, vector: Vectors | None
) -> tuple[str, dict[str, Any]]:
    known, known_values = _known(request.as_of)
    wanted, wanted_values = _wanted(request)
    lexemes = list(counts.df)
    values: dict[str, Any] = {
        **known_values,
        **wanted_values,
        **{f"word{place}": _quoted(word) for place, word in enumerate(lexemes)},
        "model": counts.model,
    }
    searches = [_lexical(view, counts, f"{known} AND {wanted}", values)]
    cosine = "NULL::double precision"
    if vector is not None:
        values["vector"] = "[" + ",".join(f"{number:.6g}" for number in vector) + "]"
        size = f"halfvec({len(vector)})"
        distance = f"embedding::{size} <#> %(vector)s::{size}"
        searches.append(
            f"SELECT id FROM {_source(view, 'id, embedding', f'model = %(model)s AND {known} AND {wanted}')} AS dense "  # noqa: S608
            f"ORDER BY {distance} LIMIT {HITS}"
        )
        cosine = f"CASE WHEN model = %(model)s THEN -({distance}) END"
    nothing = f"SELECT id FROM {view.search_tables[0]} WHERE false"  # noqa: S608
    found = " UNION ".join(f"({search})" for search in searches if search) or nothing
    beside = _source(
        view, "id, position", f"loop_id <> '' AND loop_id = hit.loop_id AND persona = hit.persona AND {known}"
    )
    words = [f"terms @@ {_tsquery(place)}" for place in range(len(lexemes))]
    held = f"ARRAY[{', '.join(words)}]::boolean[]"
    statement = f"""
WITH hits AS MATERIALIZED (
    SELECT id, persona, loop_id, position
    FROM {_source(view, "id, persona, loop_id, position", f"id IN ({found})")} AS chosen
), near AS MATERIALIZED (
    SELECT hit.id,
        ARRAY(SELECT id FROM {beside} AS b WHERE b.position < hit.position ORDER BY b.position DESC LIMIT 2) AS before,
        ARRAY(SELECT id FROM {beside} AS b WHERE b.position > hit.position ORDER BY b.position LIMIT 2) AS after
    FROM hits AS hit
), every AS MATERIALIZED (
    SELECT id FROM near UNION SELECT unnest(before) FROM near UNION SELECT unnest(after) FROM near
)
SELECT item.*, near.before, near.after
FROM {
        _source(
            view,
            f'''
    id, persona, item_type, item_id, loop_id, words, names, {cosine} AS cosine,
    {held} AS held,
    says_time,
    ({wanted}) AS wanted''',
            "id IN (SELECT id FROM every)",
        )
    } AS item
LEFT JOIN near USING (id)
ORDER BY item.id
"""  # noqa: S608
    return statement, values


def _lexical(view: PersonaMemory, counts: Counts, condition: str, values: dict[str, Any]) -> str:
    """The search by words: items that hold the query's rarer words, ranked by the idf of all of them."""
    place_of = {word: place for place, word in enumerate(counts.df)}
    present = sorted((n, word) for word, n in counts.df.items() if n)
    if not present:
        return ""
    rows = 0
    keys: list[str] = []
    for n, word in present:
        if keys and rows + n > LEXICAL_ROWS:
            break
        rows += n
        keys.append(f"{int(view.agent.pk)}:{word}")
    values["keys"] = keys
    weights = []
    for n, word in present:
        weight = rarity(min(n, counts.items), counts.items)
        weights.append(f"(terms @@ {_tsquery(place_of[word])})::integer * float8 '{weight:.5f}'")
    # BM25's saturation of a word that occurs once, with the constants of the scoring.
    length = 0.48 / max(counts.mean_words, 1.0)
    holding = f"nous_agent_lexemes(agent_id, terms) && %(keys)s::text[] AND {condition}"
    return (
        f"SELECT id FROM {_source(view, 'id, terms, words', holding)} AS lexical "  # noqa: S608
        f"ORDER BY ({' + '.join(weights)}) / (1.72 + words * float8 '{length:.6f}') DESC, id "
        f"LIMIT {HITS}"
    )


def _tsquery(place: int) -> str:
    return f"%(word{place})s::tsquery"


def _quoted(lexeme: str) -> str:
    """A lexeme as a tsquery reads it, whatever characters it has."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def _known(as_of: datetime | None) -> tuple[str, dict[str, Any]]:
    """What may be seen at all: what is active, or what was at a moment. An event is known from when it happens."""
    if as_of is None:
        return "active", {}
    return (
        "((active AND retired_at IS NULL OR retired_at > %(as_of)s)"
        " AND CASE item_type WHEN 'event' THEN happened_at ELSE recorded_at END <= %(as_of)s)",
        {"as_of": as_of},
    )


def _wanted(request: SearchRequest) -> tuple[str, dict[str, Any]]:
    conditions = ["true"]
    values: dict[str, Any] = {}
    for column, chosen in (
        ("item_type", request.types),
        ("kind", request.kinds),
        ("category", request.categories),
        ("scope", request.scopes),
    ):
        if chosen:
            conditions.append(f"{column} = ANY(%(f_{column})s)")
            values[f"f_{column}"] = list(chosen)
    if request.exclude_categories:
        conditions.append("category <> ALL(%(f_excluded)s)")
        values["f_excluded"] = list(request.exclude_categories)
    if request.tags:
        conditions.append("tags ?| %(f_tags)s::text[]")
        values["f_tags"] = list(request.tags)
    if request.min_importance:
        conditions.append("importance >= %(f_importance)s")
        values["f_importance"] = request.min_importance
    return " AND ".join(conditions), values
