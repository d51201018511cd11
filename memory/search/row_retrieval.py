"""The statement that finds candidates: hits by meaning and by words, their neighbours, and the scored columns of all.

It reads only the index tables of the persona, and of these only the agent's own rows.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, combinations
from typing import Any

import numpy as np
from pgvector import HalfVector

from identity.models import Agent
from memory.embedding.protocol import Vectors
from memory.models import EventKind
from memory.persona import VIEWS, PersonaMemory
from memory.search.fusion import SAID_BY_AGENT, SAID_BY_PERSON, Candidates, Counts, Flags, Values, rarity
from memory.search.index_tables import PASSAGES_OF_TABLE, PERSONA_OF_TABLE, STATEMENTS_KEPT, holders_of, source_of
from memory.search.query_word_counts import (
    READ_WHOLE,
    bits_read,
    has_spellings,
    holder_query,
    lexeme_values,
    masks_of,
    tsquery_of,
)
from memory.search.request import MAX_HITS, SearchRequest, visible_of, wanted_of
from memory.types.stores import INSTRUCTION, PREFERENCE
from nousweb.lib.prepared_statements import array_text, columns_prepared, rows_prepared

LEXICAL_ROWS = 1_500
"""Approximate maximum of ranked rows; the commonest words are left out to stay below it."""
PAIRED = 4
"""If the rarest word alone has more rows, items must contain two of this number of rarest words."""


def lexical_fetch(view: PersonaMemory, request: SearchRequest, counts: Counts, lexemes: Sequence[str]) -> list[int]:
    """Ids of the hits of the lexical search: items with the rarer lexemes, by the idf of all matching lexemes."""
    statement, values = lexical_statement(view, request, counts, lexemes)
    return [row[0] for row in rows_prepared(statement, values)] if statement else []


def lexical_statement(
    view: PersonaMemory, request: SearchRequest, counts: Counts, lexemes: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    """The statement and its values; an empty statement if no item contains any of the lexemes."""
    known, known_values = visible_of(request)
    wanted, wanted_values = wanted_of(request)
    values: dict[str, Any] = {**known_values, **wanted_values}
    present = sorted((n, word) for word in lexemes if (n := counts.df[word]))
    if not present:
        return "", values
    weights = []
    for place, (n, word) in enumerate(present):
        values[f"terms{place}"] = holder_query(word, counts.spellings)
        values[f"weight{place}"] = round(rarity(min(n, counts.items), counts.items), 5)
        weights.append(f"(terms @@ {tsquery_of(place)})::integer * %(weight{place})s::float8")
    # BM25's saturation of a word that occurs once, with the constants of the scoring.
    values["length"] = round(0.48 / max(counts.mean_words, 1.0), 6)
    holders = []
    for place, (operator, words) in enumerate(selective(counts, present)):
        values[f"keys{place}"] = [f"{int(view.agent.pk)}:{word}" for word in words]
        holders.append(f"nous_agent_lexemes(agent_id, terms) {operator} %(keys{place})s::text[]")
    rows = holders_of(view, "id, terms, words", f"({' OR '.join(holders)}) AND {known} AND {wanted}")
    return (
        f"SELECT id FROM (SELECT * FROM {rows} AS holder LIMIT {2 * LEXICAL_ROWS}) AS lexical "  # noqa: S608
        f"ORDER BY ({' + '.join(weights)}) / (1.72 + words * %(length)s::float8) DESC, id LIMIT {request.hits}",
        values,
    )


def selective(counts: Counts, present: Sequence[tuple[int, str]]) -> list[tuple[str, list[str]]]:
    """The words that an item must contain to be ranked, as alternatives: any (`&&`) or all (`@>`) words of a list.

    `present`: numbers of items with their words, the rarest first. Another name of a subject counts as its word too.
    """
    if len(present) == 1 or present[0][0] <= LEXICAL_ROWS:
        total = list(accumulate(n for n, _ in present))
        kept = [word for (_, word), n in zip(present, total, strict=True) if n <= max(LEXICAL_ROWS, total[0])]
        others = [also[0] for word in kept for also in counts.spellings.get(word, ())]
        return [("&&", [*kept, *others])]
    # As many items as hold two words if they are independent of each other.
    pairs = sorted(
        (a * b // max(counts.items, 1), [one, two]) for (a, one), (b, two) in combinations(present[:PAIRED], 2)
    )
    total = list(accumulate(n for n, _ in pairs))
    chosen = [words for (_, words), n in zip(pairs, total, strict=True) if n <= max(LEXICAL_ROWS, total[0])]
    otherwise = [
        [*also, *(each for each in words if each != word)]
        for words in chosen
        for word in words
        for also in counts.spellings.get(word, ())
    ]
    return [("@>", words) for words in [*chosen, *otherwise]]


NEIGHBOURS = 2
"""Number of neighbours on each side of a hit that are fetched; the scoring's window has the same width."""
ITEM_COLUMNS = (
    "id, persona, loop_id, position, words, names, says_time, terms, embedding, model, passages, standing, text,"
    " item_type, item_id, kind, category, scope, project, task, user_key, tags, importance"
)
FETCHED = "id, item_type, loop, position, words, cosine, held, named, persona, passages, flags, product"
"""The columns that are fetched of each candidate; whether it is a hit and its nearest passages are added."""
PASSAGES = 2
"""Number of nearest passages that are read of each candidate."""
STANDING_HITS = 20
"""So many instructions and preferences are candidates, the nearest, whatever their words and however many others are
nearer."""

SPEAKER_OF_KIND = {EventKind.USER_INPUT.value: SAID_BY_PERSON, EventKind.ACTOR_OUTPUT.value: SAID_BY_AGENT}
STANDING_LEVEL = {PREFERENCE: 1, INSTRUCTION: 2}
NAMELESS, SAYS_TIME, WANTED, ASKS, HIT = 1, 2, 4, 8, 16
SPEAKER_UNIT, STANDING_UNIT = 32, 128
"""The flags of a candidate are sent as one number: bits, and two numbers from 0 to 3 in these units."""
_LEVELS = " ".join(f"WHEN '{said}' THEN {level}" for said, level in STANDING_LEVEL.items())
_ASKS = f"CASE WHEN text <> '' THEN get_byte(textsend(text), octet_length(text) - 1) = {ord('?')} ELSE false END"
"""Whether a text ends as a question, by its last byte: to find the last character PostgreSQL goes through all."""
_SPEAKERS = " ".join(f"WHEN '{kind}' THEN {speaker}" for kind, speaker in SPEAKER_OF_KIND.items())


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Candidates with their ids in the index, their types, and whether each passes the filters (`wanted`).

    The cosines are those of the embedding model, not calibrated. Neighbours of hits need not pass the filters.
    `excerpts`: begin and end of the passage nearest to the query in the text of the index, NaN without passages.
    """

    ids: Sequence[int]
    types: Sequence[str]
    wanted: Flags
    columns: Candidates
    excerpts: Values


def candidates_fetch(
    view: PersonaMemory,
    request: SearchRequest,
    counts: Counts,
    lexemes: Sequence[str],
    *,
    lexical: Sequence[int],
    vector: Vectors | None,
    moved: Vectors | None = None,
) -> CandidateSet:
    """Fetch the hits of the dense and the `lexical` search and their neighbours, by one statement for all types.

    `moved` is the moved vector of a message (memory.search.search), by which there is a further dense search.
    """
    (
        ids, types, loops, positions, words, cosines, contains, named, flags, products, long_ids, passages,
    ) = columns_prepared(*candidates_statement(view, request, counts, lexemes, lexical, vector, moved))  # fmt: skip
    flags = np.asarray(flags, np.int64)
    nearest = np.full((len(ids), PASSAGES, 3), np.nan)
    nearest[np.searchsorted(ids, long_ids)] = np.reshape(passages, (-1, PASSAGES, 3))
    number = {loop: place for place, loop in enumerate(dict.fromkeys(loops))} | {"": -1}
    return CandidateSet(
        np.asarray(ids, np.int64).tolist(),
        types,
        flags & WANTED > 0,
        Candidates(
            cosine=np.asarray(cosines, float),
            contains=bits_read(contains, lexemes),
            named=bits_read(named, lexemes),
            nameless=flags & NAMELESS > 0,
            length=np.asarray(words, float),
            loop=np.array([number[loop] for loop in loops], np.int64),
            position=np.asarray(positions, np.int64),
            hit=flags & HIT > 0,
            says_time=flags & SAYS_TIME > 0,
            passage=nearest[:, 0, 0],
            second=nearest[:, 1, 0],
            speaker=flags // SPEAKER_UNIT & 3,
            standing=flags // STANDING_UNIT & 3,
            asks=flags & ASKS > 0,
            moved=np.zeros(0) if moved is None else np.asarray(products, float),
        ),
        nearest[:, 0, 1:],
    )


TUNING = {
    # Starting parallel workers takes longer than these short scans.
    "max_parallel_workers_per_gather": "0",
    # An approximate scan goes on until enough rows have passed the filters, in the exact order of their distance.
    "hnsw.iterative_scan": "strict_order",
    "hnsw.ef_search": str(MAX_HITS),
}


def candidates_statement(
    view: PersonaMemory,
    request: SearchRequest,
    counts: Counts,
    lexemes: Sequence[str],
    lexical: Sequence[int],
    vector: Vectors | None,
    moved: Vectors | None,
) -> tuple[str, dict[str, Any]]:
    """The statement of `candidates_fetch` and its values."""
    known, known_values = visible_of(request)
    wanted, wanted_values = wanted_of(request)
    values: dict[str, Any] = {
        **known_values,
        **wanted_values,
        **lexeme_values(lexemes, counts.spellings),
        "lexical": array_text(lexical),
    }
    if vector is not None:
        values["vector"] = query_vector(vector)
    if moved is not None:
        values["moved"] = query_vector(moved)
    spelled = has_spellings(lexemes, counts.spellings)
    model, dimension = ("", 0) if vector is None else (counts.model, len(vector))
    agent, unindexed = int(view.agent.pk), frozenset(counts.unindexed)
    text = _fetch_text(
        view.persona, agent, known, wanted, spelled, model, dimension, unindexed, request.hits, moved is not None
    )
    return text, values


@lru_cache(maxsize=STATEMENTS_KEPT)
def _fetch_text(
    persona: str,
    agent: int,
    known: str,
    wanted: str,
    spelled: tuple[bool, ...],
    model: str,
    dimension: int,
    unindexed: frozenset[str],
    hits: int,
    is_message: bool,
) -> str:
    """The statement that fetches candidates, without vectors where `dimension` is 0.

    `known` and `wanted` are its conditions; `spelled` says of each lexeme whether it has other spellings. `unindexed`
    are as in `Counts`.
    """
    view = VIEWS[persona](Agent(pk=agent))
    found = "SELECT unnest(%(lexical)s::bigint[])"
    cosine = product = "NULL::double precision"
    nearest = "NULL::double precision[]"
    if dimension:
        # Only a constant lets the planner see that the index of this model's vectors applies.
        model = "'" + model.replace("'", "''").replace("%", "%%") + "'"
        distance = distance_of(dimension)
        nearby = f"model = {model} AND {known} AND {wanted}"
        found += _dense(view, unindexed, nearby, distance, hits=hits)
        found += _dense_passages(view, unindexed, model, nearby, distance, hits=hits)
        cosine = f"CASE WHEN model = {model} THEN -({distance}) END"
        nearest = _nearest_passages(view, model, distance)
        if is_message:
            moved = distance_of(dimension, "moved")
            found += _dense(view, unindexed, nearby, moved, hits=hits)
            product = f"CASE WHEN model = {model} THEN -({moved}) END"
    contains, named = masks_of(spelled)
    flags = (
        f"{NAMELESS} * (names = '{{}}')::integer + {SAYS_TIME} * says_time::integer + {WANTED} * ({wanted})::integer"
        f" + {ASKS} * ({_ASKS})::integer + {SPEAKER_UNIT} * CASE kind {_SPEAKERS} ELSE 0 END"
        f" + {STANDING_UNIT} * CASE standing {_LEVELS} ELSE 0 END"
    )
    columns = (
        "id, item_type, CASE WHEN loop_id = '' THEN '' ELSE persona || loop_id END AS loop, position, words,"
        f" {cosine} AS cosine, {contains} AS held, {named} AS named, persona, passages, {flags} AS flags,"
        f" {product} AS product"
    )
    beside = source_of(
        view, ITEM_COLUMNS, f"loop_id <> '' AND loop_id = hit.loop_id AND persona = hit.persona AND {known}"
    )
    return f"""
WITH hits AS MATERIALIZED (
    SELECT loop_id, {columns} FROM {source_of(view, ITEM_COLUMNS, f"id IN ({found})")} AS chosen
), every AS MATERIALIZED (
    SELECT true AS hit, {FETCHED} FROM hits
    UNION ALL SELECT false, near.* FROM hits AS hit CROSS JOIN LATERAL (
        SELECT {columns} FROM (
            (SELECT * FROM {beside} AS b WHERE b.position < hit.position ORDER BY b.position DESC LIMIT {NEIGHBOURS})
            UNION ALL
            (SELECT * FROM {beside} AS b WHERE b.position > hit.position ORDER BY b.position LIMIT {NEIGHBOURS})
        ) AS sides
    ) AS near
)
SELECT array_agg(id), array_agg(item_type::text), array_agg(loop), array_agg(position), array_agg(words),
    array_agg(coalesce(cosine, 'NaN')), array_agg(held), array_agg(named), array_agg(flags + {HIT} * hit::integer),
    array_agg(coalesce(product, 'NaN')),
    array_agg(id) FILTER (WHERE nearest IS NOT NULL), array_agg(nearest) FILTER (WHERE nearest IS NOT NULL)
FROM (
    SELECT one.*, {nearest} AS nearest
    FROM (SELECT DISTINCT ON (id) {FETCHED}, hit FROM every ORDER BY id, hit DESC) AS one OFFSET 0
) AS one
"""  # noqa: S608


def _dense(view: PersonaMemory, unindexed: Collection[str], condition: str, distance: str, *, hits: int) -> str:
    """SQL of the nearest items and the nearest standing instructions and preferences; continues a UNION of ids."""
    every = source_of(view, "id, embedding", condition)
    if unindexed:
        parts = (
            f"(SELECT id, embedding FROM {table} WHERE persona = '{PERSONA_OF_TABLE[table]}'"  # noqa: S608
            f" AND agent_id = {int(view.agent.pk)} AND {condition} {latest})"
            for table in view.search_tables
            for latest in (f"ORDER BY id DESC LIMIT {READ_WHOLE}" if PERSONA_OF_TABLE[table] in unindexed else "",)
        )
        every = f"({' UNION ALL '.join(parts)})"
    kept_to = source_of(view, "id, embedding", f"standing <> '' AND {condition}")
    return (
        f" UNION (SELECT id FROM {every} AS dense ORDER BY {distance} LIMIT {hits})"  # noqa: S608
        # Sorted apart: an approximate index would be read to its end for so few.
        f" UNION (SELECT id FROM (SELECT * FROM {kept_to} AS kept OFFSET 0) AS kept"
        f" ORDER BY {distance} LIMIT {STANDING_HITS})"
    )


def _dense_passages(
    view: PersonaMemory, unindexed: Collection[str], model: str, condition: str, distance: str, *, hits: int
) -> str:
    """SQL of the items of the nearest passages; continues a UNION of ids. A passage needs an item with a vector."""
    agent = int(view.agent.pk)

    def passages(table: str) -> str:
        persona = PERSONA_OF_TABLE[table]
        own = f"persona = '{persona}' AND agent_id = {agent} AND model = {model}"
        if persona not in unindexed:
            return f"{PASSAGES_OF_TABLE[table]} AS passage WHERE {own}"
        latest = f"SELECT * FROM {PASSAGES_OF_TABLE[table]} WHERE {own} ORDER BY row_id DESC LIMIT {READ_WHOLE}"  # noqa: S608
        return f"({latest}) AS passage WHERE true"

    parts = (
        f" UNION (SELECT row_id FROM {passages(table)}"  # noqa: S608
        f" AND EXISTS (SELECT 1 FROM {table} WHERE id = passage.row_id AND persona = passage.persona"
        f" AND agent_id = {agent} AND {condition}) ORDER BY {distance} LIMIT {PASSAGES * hits})"
        for table in view.search_tables
    )
    return "".join(parts)


def _nearest_passages(view: PersonaMemory, model: str, distance: str) -> str:
    """SQL of the nearest passages of the candidate `one`: an array of cosine, begin and end of each, filled with NaN.

    A changed text keeps the passages of the text before until it has a new vector.
    """
    passages = " UNION ALL ".join(
        f"SELECT embedding, begins, ends FROM {PASSAGES_OF_TABLE[table]} WHERE row_id = one.id AND model = {model}"  # noqa: S608
        f" AND persona = one.persona AND persona = '{PERSONA_OF_TABLE[table]}' AND agent_id = {int(view.agent.pk)}"
        for table in view.search_tables
    )
    return (
        "CASE WHEN passages > 0 AND cosine IS NOT NULL THEN (ARRAY("  # noqa: S608
        f"SELECT unnest(ARRAY[-({distance}), begins, ends]) FROM"
        f" (SELECT * FROM ({passages}) AS own ORDER BY {distance} LIMIT {PASSAGES}) AS passage)"
        f" || array_fill('NaN'::double precision, ARRAY[{3 * PASSAGES}]))[1:{3 * PASSAGES}] END"
    )


def query_vector(vector: Vectors) -> HalfVector:
    """A vector in half precision, like those of the index."""
    return HalfVector(np.asarray(vector, np.float16))


def distance_of(dimension: int, name: str = "vector") -> str:
    """SQL of the negative product of a row's embedding and the parameter `name`, a vector with this dimension; of
    %(vector)s it is the negative cosine."""
    return f"embedding::halfvec({dimension}) <#> %({name})s::halfvec"
