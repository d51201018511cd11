"""The statements that find: counts about the collection, then everything that the scoring looks at.

Both read the physical tables of the view only, and of these the agent's own rows.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import accumulate, combinations
from typing import Any

import numpy as np
from django.db import connection
from pydantic_core import to_json

from identity.models import Agent
from memory.embedding.protocol import Vectors
from memory.models import EventKind, ItemType, Scope
from memory.persona import VIEWS, PersonaMemory
from memory.policy import PROFILE_CATEGORIES
from memory.search.languages import terms_sql
from memory.search.query_context import Counts
from memory.search.request import SearchRequest
from memory.search.scoring import SAID_BY_AGENT, SAID_BY_PERSON, Candidates, Flags, Places, Values, rarity
from memory.types.standing import INSTRUCTION, PREFERENCE
from nousweb.lib.prepared_statements import array_text, columns_prepared, rows_prepared

LEAST_HITS, MOST_HITS = 30, 50
"""Candidates of each of the two searches, before neighbours: three for each item asked for, within these bounds."""
NEIGHBOURS = 2
"""Items on each side of a hit that come along; the scoring's window is as wide."""
ITEM_COLUMNS = (
    "id, persona, loop_id, position, words, names, says_time, terms, embedding, model, passages, standing, text,"
    " item_type, item_id, kind, category, scope, project, task, tags, importance"
)
FETCHED = "id, item_type, loop, position, words, cosine, held, named, persona, passages, flags"
"""What is fetched of each candidate, besides whether it is a hit and its nearest passages."""
PASSAGES = 2
"""Of each candidate so many of the nearest passages are read."""
STANDING_HITS = 20
"""So many instructions and preferences are candidates, the nearest, whatever their words and however many others are
nearer."""
LEXICAL_ROWS = 1_500
"""About as many rows as the lexical search ranks; the commonest words are left out when there would be more."""
PAIRED = 4
"""Of so many of the rarest words an item must hold two, when the rarest alone would bring more rows than that."""
READ_WHOLE = 20_000
"""Of a larger collection whose vector index is not there yet, the vectors of the latest so many items are compared; the
others are found by words."""
COUNTED = 2_000
"""A word that this many items hold is common: counted in the background (memory.search.index_statistics), not here."""
MAX_LEXEMES = 64
MAX_SPELLINGS = 16
"""Other names of subjects that a query names, so many in all."""
OWN_WORDS = frozenset([*ItemType.values, *Scope.values, *PROFILE_CATEGORIES])
"""What filters of most searches name: words of this program, without quotes in them."""

STATEMENTS_KEPT = 256
"""Texts of statements that are kept, by agent and by what is asked for."""

PERSONA_OF_TABLE = {
    "memory_searchitem_actor": "actor",
    "memory_searchitem_subconscious": "subconscious",
}
PASSAGES_OF_TABLE = {
    "memory_searchitem_actor": "memory_searchpassage_actor",
    "memory_searchitem_subconscious": "memory_searchpassage_subconscious",
}

SPEAKER_OF_KIND = {EventKind.USER_INPUT.value: SAID_BY_PERSON, EventKind.ACTOR_OUTPUT.value: SAID_BY_AGENT}
STANDING_LEVEL = {PREFERENCE: 1, INSTRUCTION: 2}
NAMELESS, SAYS_TIME, WANTED, ASKS, HIT = 1, 2, 4, 8, 16
SPEAKER_UNIT, STANDING_UNIT = 32, 128
"""What is said of a candidate is sent as one number: bits, and two numbers from 0 to 3 in these units."""
_LEVELS = " ".join(f"WHEN '{said}' THEN {level}" for said, level in STANDING_LEVEL.items())
_ASKS = f"CASE WHEN text <> '' THEN get_byte(textsend(text), octet_length(text) - 1) = {ord('?')} ELSE false END"
"""Whether a text ends as a question, by its last byte: to find the last character PostgreSQL goes through all."""
_SPEAKERS = " ".join(f"WHEN '{kind}' THEN {speaker}" for kind, speaker in SPEAKER_OF_KIND.items())


def source_of(view: PersonaMemory, columns: str, condition: str, *, agent: str = "agent_id") -> str:
    """A subquery over the physical tables of the view and no other; all arguments are our own text."""
    parts = [
        f"SELECT {columns} FROM {table} WHERE persona = '{PERSONA_OF_TABLE[table]}' AND {agent} = {int(view.agent.pk)}"  # noqa: S608
        f" AND {condition}"
        for table in view.search_tables
    ]
    return "(" + " UNION ALL ".join(parts) + ")"


def _holders(view: PersonaMemory, columns: str, condition: str) -> str:
    """`source_of` for a condition on words. Their keys name the agent already; so written, the planner does not read
    the index of all the agent's items beside that of the words."""
    return source_of(view, columns, condition, agent="agent_id + 0")


def counts_read(view: PersonaMemory, query: str) -> Counts:
    """Counts over the view's collections, and of the query's lexemes in them, with the other spellings of the subjects
    that the query names: one statement."""
    statement = _counts_statement(view.persona, int(view.agent.pk))
    [(model, held, df, every, asked, spelled)] = rows_prepared(
        statement, {"query": query, "personas": array_text(view.personas)}
    )
    if held:
        items = sum(row[0] for row in held)
        mean = sum(row[0] * row[1] for row in held) / max(items, 1)
        unindexed = frozenset(persona for n, _, persona, indexed in held if n > READ_WHOLE and indexed != model)
    else:
        items, mean = int(every[0]), float(every[1])
        unindexed = frozenset(view.personas if items > READ_WHOLE else ())
    frequencies = {word: int(n) for word, n in (df or {}).items()}
    spellings: dict[str, list[list[str]]] = {}
    for said, also in spelled or ():
        for word in said:
            spellings.setdefault(word, []).append(also)
    # What holds another name holds the word; its rarest lexeme says how many do.
    holding = {
        word: frequencies.get(word, 0)
        + sum(min(frequencies.get(each, 0) for each in also) for also in spellings.get(word, ()))
        for word in asked or ()
    }
    return Counts(model or "", items, mean, holding, spellings, unindexed)


@lru_cache(maxsize=STATEMENTS_KEPT)
def _counts_statement(persona: str, agent: int) -> str:
    view = VIEWS[persona](Agent(pk=agent))
    counted = _holders(view, "1 AS one", f"nous_agent_lexemes(agent_id, terms) && ARRAY['{agent}:' || counted.lexeme]")
    return f"""
WITH asked AS MATERIALIZED (
    SELECT lexeme FROM unnest({terms_sql(agent, "%(query)s::text")}) ORDER BY positions[1], lexeme LIMIT {MAX_LEXEMES}
), told AS MATERIALIZED (
    SELECT array_agg(lexeme) AS words FROM asked
), spelled AS MATERIALIZED (
    SELECT DISTINCT alias.lexemes AS said, other.lexemes AS also
    FROM told JOIN memory_subjectalias AS alias
        ON alias.lexemes[1] = ANY(told.words) AND alias.lexemes <@ told.words
        AND alias.agent_id = {agent} AND alias.persona = ANY(%(personas)s::text[])
    JOIN memory_subjectalias AS other
        ON other.agent_id = {agent} AND other.subject_id = alias.subject_id AND other.id <> alias.id
    WHERE other.lexemes <> '{{}}' AND NOT other.lexemes <@ alias.lexemes
    ORDER BY said, also LIMIT {MAX_SPELLINGS}
), counted AS MATERIALIZED (
    SELECT lexeme FROM asked UNION SELECT unnest(also) FROM spelled
), held AS MATERIALIZED (
    SELECT items, mean_words, common, persona, vector_index_model FROM memory_searchstatistics
    WHERE agent_id = {agent} AND persona = ANY(%(personas)s::text[])
)
SELECT
    (SELECT name FROM memory_embeddingmodel WHERE state = 'active'),
    (SELECT json_agg(json_build_array(items, mean_words, persona, vector_index_model)) FROM held),
    (SELECT json_object_agg(lexeme, CASE
        WHEN EXISTS (SELECT 1 FROM held WHERE jsonb_exists(common, lexeme))
        THEN (SELECT sum((common ->> lexeme)::integer) FROM held)
        ELSE (SELECT count(*) FROM (SELECT one FROM {counted} AS matching LIMIT {COUNTED}) AS few) END) FROM counted),
    CASE WHEN EXISTS (SELECT 1 FROM held) THEN NULL ELSE
        (SELECT json_build_array(count(*), coalesce(avg(words), 0)) FROM {source_of(view, "words", "active")} AS every)
    END,
    (SELECT words FROM told),
    (SELECT json_agg(json_build_array(said, also)) FROM spelled)
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Candidates with what leads to them: their ids in the index, their types, and whether the filters let each pass.

    `cosine` is the model's own. Neighbours of hits need not pass the filters. `excerpts` are where the passage nearest
    to the query begins and ends in the text of the index, NaN for a text that has none.
    """

    ids: Sequence[int]
    types: Sequence[str]
    wanted: Flags
    columns: Candidates
    excerpts: Values


def _hits(request: SearchRequest) -> int:
    return min(max(LEAST_HITS, 3 * request.limit), MOST_HITS)


def lexical_fetch(view: PersonaMemory, request: SearchRequest, counts: Counts, lexemes: Sequence[str]) -> list[int]:
    """Ids of the hits of the lexical search: items that hold the rarer lexemes, by the idf of all that they hold."""
    statement, values = _lexical_statement(view, request, counts, lexemes)
    return [row[0] for row in rows_prepared(statement, values)] if statement else []


def candidates_fetch(
    view: PersonaMemory,
    request: SearchRequest,
    counts: Counts,
    lexemes: Sequence[str],
    *,
    lexical: Sequence[int],
    vector: Vectors | None,
) -> CandidateSet:
    """Hits of the dense and the `lexical` search and their neighbours, one statement for all types of items."""
    (
        ids, types, loops, positions, words, cosines, held, named, flags, long_ids, passages,
    ) = columns_prepared(*_fetch_statement(view, request, counts, lexemes, lexical, vector))  # fmt: skip
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
            held=bits_read(held, lexemes),
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
        ),
        nearest[:, 0, 1:],
    )


def bits_read(masks: Sequence[int] | Places, lexemes: Sequence[str]) -> Flags:
    """One column for each lexeme."""
    flags: Flags = (np.asarray(masks, np.int64)[:, None] >> np.arange(len(lexemes)) & 1).astype(bool)
    return flags


TUNING = {
    # Starting parallel workers takes longer than these short scans.
    "max_parallel_workers_per_gather": "0",
    # An approximate scan goes on until enough rows have passed the filters, in the exact order of their distance.
    "hnsw.iterative_scan": "strict_order",
    "hnsw.ef_search": str(MOST_HITS),
}


def candidates_explain(view: PersonaMemory, request: SearchRequest, counts: Counts, vector: Vectors | None) -> Any:
    """The query plans of `lexical_fetch` and `candidates_fetch` as PostgreSQL's JSON."""
    lexemes = list(counts.df)
    plans = []
    with connection.cursor() as cursor:
        for statement, values in (
            _lexical_statement(view, request, counts, lexemes),
            _fetch_statement(view, request, counts, lexemes, [], vector),
        ):
            if statement:
                cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", values)
                plan = cursor.fetchone()[0]
                plans.append(json.loads(plan) if isinstance(plan, str) else plan)
    return plans


def _fetch_statement(
    view: PersonaMemory,
    request: SearchRequest,
    counts: Counts,
    lexemes: Sequence[str],
    lexical: Sequence[int],
    vector: Vectors | None,
) -> tuple[str, dict[str, Any]]:
    known, known_values = visible_as_of(request.as_of)
    wanted, wanted_values = wanted_of(request)
    values: dict[str, Any] = {
        **known_values,
        **wanted_values,
        **lexeme_values(lexemes, counts.spellings),
        "lexical": array_text(lexical),
    }
    if vector is not None:
        values["vector"] = vector_text(vector)
    spelled = spelled_of(lexemes, counts.spellings)
    model, dimension = ("", 0) if vector is None else (counts.model, len(vector))
    agent, unindexed = int(view.agent.pk), frozenset(counts.unindexed)
    text = _fetch_text(view.persona, agent, known, wanted, spelled, model, dimension, unindexed, _hits(request))
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
) -> str:
    """The statement that fetches candidates, without vectors where `dimension` is 0.

    `known` and `wanted` are its conditions; `spelled` says of each lexeme whether it has other spellings. `unindexed`
    are as in `Counts`.
    """
    view = VIEWS[persona](Agent(pk=agent))
    found = "SELECT unnest(%(lexical)s::bigint[])"
    cosine = "NULL::double precision"
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
    held, named = masks_of(spelled)
    flags = (
        f"{NAMELESS} * (names = '{{}}')::integer + {SAYS_TIME} * says_time::integer + {WANTED} * ({wanted})::integer"
        f" + {ASKS} * ({_ASKS})::integer + {SPEAKER_UNIT} * CASE kind {_SPEAKERS} ELSE 0 END"
        f" + {STANDING_UNIT} * CASE standing {_LEVELS} ELSE 0 END"
    )
    columns = (
        "id, item_type, CASE WHEN loop_id = '' THEN '' ELSE persona || loop_id END AS loop, position, words,"
        f" {cosine} AS cosine, {held} AS held, {named} AS named, persona, passages, {flags} AS flags"
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
    array_agg(id) FILTER (WHERE nearest IS NOT NULL), array_agg(nearest) FILTER (WHERE nearest IS NOT NULL)
FROM (
    SELECT one.*, {nearest} AS nearest
    FROM (SELECT DISTINCT ON (id) {FETCHED}, hit FROM every ORDER BY id, hit DESC) AS one OFFSET 0
) AS one
"""  # noqa: S608


def _dense(view: PersonaMemory, unindexed: Collection[str], condition: str, distance: str, *, hits: int) -> str:
    """The nearest items, and the nearest of those that are to be kept to: continues a UNION of ids."""
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
    """The items of the nearest passages: continues a UNION of ids. A passage counts while its item's vector does."""
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
    """Of a candidate called `one` the nearest passages, each as its cosine, beginning and end, in one array that ends
    with NaN where there are fewer.

    A text that changed has passages of the one before until it has a vector again.
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


def vector_text(vector: Vectors) -> str:
    """A vector as PostgreSQL reads it. Half precision keeps three digits; short numbers are quicker to send."""
    return to_json(np.asarray(vector, float).round(6).tolist()).decode()


def distance_of(dimension: int) -> str:
    """The negative cosine of a row's embedding and %(vector)s, which has so many numbers."""
    return f"embedding::halfvec({dimension}) <#> %(vector)s::halfvec({dimension})"


Spellings = Mapping[str, Sequence[Sequence[str]]]
"""Other names of a subject, each as its lexemes, by a lexeme of the name that a query has."""


def lexeme_values(lexemes: Sequence[str], spellings: Spellings) -> dict[str, Any]:
    """The parameters of `masks_of`."""
    values: dict[str, Any] = {f"terms{place}": _holding(word, spellings) for place, word in enumerate(lexemes)}
    for place, word in enumerate(lexemes):
        if word in spellings:
            values[f"words{place}"] = [word, *(each for also in spellings[word] for each in also)]
        else:
            values[f"word{place}"] = word
    return values


def spelled_of(lexemes: Sequence[str], spellings: Spellings) -> tuple[bool, ...]:
    """Of each lexeme whether it is spelled otherwise too."""
    return tuple(word in spellings for word in lexemes)


def masks_of(spelled: Sequence[bool]) -> tuple[str, str]:
    """Which of the lexemes an item holds, and which name its speaker or subject: expressions that `bits_read` reads.

    Of a lexeme that is `spelled` otherwise too (`spelled_of`), those count that hold or name the same subject.
    """
    held = _mask(f"terms @@ {_tsquery(place)}" for place in range(len(spelled)))
    named = (
        f"names && %(words{place})s::text[]" if also else f"%(word{place})s::text = ANY(names)"
        for place, also in enumerate(spelled)
    )
    return held, _mask(named)


def _mask(flags: Iterable[str]) -> str:
    """Conditions as the bits of one number, the first the lowest."""
    return " | ".join(f"(({flag})::integer::bigint << {place})" for place, flag in enumerate(flags)) or "0::bigint"


def _lexical_statement(
    view: PersonaMemory, request: SearchRequest, counts: Counts, lexemes: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    """Nothing when no item holds any of the lexemes."""
    known, known_values = visible_as_of(request.as_of)
    wanted, wanted_values = wanted_of(request)
    values: dict[str, Any] = {**known_values, **wanted_values}
    present = sorted((n, word) for word in lexemes if (n := counts.df[word]))
    if not present:
        return "", values
    weights = []
    for place, (n, word) in enumerate(present):
        values[f"terms{place}"] = _holding(word, counts.spellings)
        values[f"weight{place}"] = round(rarity(min(n, counts.items), counts.items), 5)
        weights.append(f"(terms @@ {_tsquery(place)})::integer * %(weight{place})s::float8")
    # BM25's saturation of a word that occurs once, with the constants of the scoring.
    values["length"] = round(0.48 / max(counts.mean_words, 1.0), 6)
    holding = []
    for place, (operator, words) in enumerate(selective(counts, present)):
        values[f"keys{place}"] = [f"{int(view.agent.pk)}:{word}" for word in words]
        holding.append(f"nous_agent_lexemes(agent_id, terms) {operator} %(keys{place})s::text[]")
    rows = _holders(view, "id, terms, words", f"({' OR '.join(holding)}) AND {known} AND {wanted}")
    return (
        f"SELECT id FROM (SELECT * FROM {rows} AS holder LIMIT {2 * LEXICAL_ROWS}) AS lexical "  # noqa: S608
        f"ORDER BY ({' + '.join(weights)}) / (1.72 + words * %(length)s::float8) DESC, id LIMIT {_hits(request)}",
        values,
    )


def selective(counts: Counts, present: Sequence[tuple[int, str]]) -> list[tuple[str, list[str]]]:
    """Which words an item must hold to be ranked, as alternatives: any (`&&`) or all (`@>`) of a list.

    `present` has the words with their numbers of items, the rarest first. Another name of a subject will do for a word.
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


def _tsquery(place: int) -> str:
    return f"%(terms{place})s::tsquery"


def _holding(word: str, spellings: Spellings) -> str:
    """The query for items that hold a lexeme, or all of another spelling that it stands for."""
    others = (" & ".join(map(_quoted, also)) for also in spellings.get(word, ()))
    return " | ".join((_quoted(word), *(f"({each})" for each in others)))


def _quoted(lexeme: str) -> str:
    """A lexeme as a tsquery reads it, whatever characters it has."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def visible_as_of(as_of: datetime | None) -> tuple[str, dict[str, Any]]:
    """What may be seen at all: what is active, or what was at a moment. An event is known from when it happens."""
    if as_of is None:
        return "active", {}
    return (
        "((active AND retired_at IS NULL OR retired_at > %(as_of)s::timestamptz)"
        " AND CASE item_type WHEN 'event' THEN happened_at ELSE recorded_at END <= %(as_of)s::timestamptz)",
        {"as_of": as_of},
    )


def wanted_of(request: SearchRequest) -> tuple[str, dict[str, Any]]:
    """The filters of a request as a condition on items, with its parameters. The first is what its scope shows."""
    shown, values = request.scope.condition()
    if request.force_include:
        shown = f"({shown} OR item_type = 'fact' AND item_id = ANY(%(f_also)s::text[]))"
        values["f_also"] = list(request.force_include)
    conditions = [shown]
    for column, chosen in (
        ("item_type", request.types),
        ("kind", request.kinds),
        ("category", request.categories),
        ("scope", request.scopes),
    ):
        # Of a column with all that it may hold nothing is asked: every row that is ranked would be looked at for it.
        if chosen and not (column == "item_type" and set(chosen).issuperset(ItemType.values)):
            conditions.append(f"{column} = ANY({_words(f'f_{column}', chosen, values)})")
    if request.exclude_categories:
        allowed = f"category <> ALL({_words('f_excluded', request.exclude_categories, values)})"
        if request.force_include:
            allowed = f"({allowed} OR item_type = 'fact' AND item_id = ANY(%(f_also)s::text[]))"
        conditions.append(allowed)
    if request.tags:
        conditions.append("tags ?| %(f_tags)s::text[]")
        values["f_tags"] = list(request.tags)
    if request.item_ids:
        conditions.append("item_id = ANY(%(f_items)s::text[])")
        values["f_items"] = list(request.item_ids)
    if request.min_importance:
        conditions.append("importance >= %(f_importance)s::float8")
        values["f_importance"] = request.min_importance
    return " AND ".join(conditions), values


def _words(name: str, words: Iterable[str], values: dict[str, Any]) -> str:
    """Words as an array in SQL. Our own are written out, so that a plan made once for all knows how many rows hold
    them; any other is the parameter called `name`, added to `values`."""
    chosen = sorted(set(words))
    if OWN_WORDS.issuperset(chosen):
        return "ARRAY[" + ", ".join(f"'{word}'" for word in chosen) + "]::text[]"
    values[name] = chosen
    return f"%({name})s::text[]"
