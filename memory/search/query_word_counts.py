"""How many items hold each word of a query, how large its collections are, and other names of its subjects: one
statement."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from django.conf import settings
from django.db import transaction

from identity.models import Agent
from memory.models import SearchStatistics
from memory.persona import VIEWS, PersonaMemory
from memory.search.fusion import Counts, Flags, Places
from memory.search.index_tables import PERSONA_OF_TABLE, STATEMENTS_KEPT, holders_of, source_of
from memory.search.languages import dictionary_sql, terms_sql
from memory.search.vector_indexes import may_index, vector_indexes_keep
from nousweb.lib import clock
from nousweb.lib.prepared_statements import array_text, rows_prepared
from nousweb.lib.transactions import advisory_lock, sql_row, sql_rows

Spellings = Mapping[str, Sequence[Sequence[str]]]
"""Lexemes of the other names of a subject, by a lexeme of the name in the query."""


def lexeme_values(lexemes: Sequence[str], spellings: Spellings) -> dict[str, Any]:
    """The parameters of `masks_of`."""
    values: dict[str, Any] = {f"terms{place}": holder_query(word, spellings) for place, word in enumerate(lexemes)}
    for place, word in enumerate(lexemes):
        if word in spellings:
            values[f"words{place}"] = [word, *(each for also in spellings[word] for each in also)]
        else:
            values[f"word{place}"] = word
    return values


def has_spellings(lexemes: Sequence[str], spellings: Spellings) -> tuple[bool, ...]:
    """For each lexeme, whether it has other spellings."""
    return tuple(word in spellings for word in lexemes)


def masks_of(spelled: Sequence[bool]) -> tuple[str, str]:
    """SQL of two masks for `bits_read`: the lexemes that an item contains, and those that name its speaker or subject.

    A lexeme with other spellings (`spelled`, by `has_spellings`) also matches those.
    """
    held = _mask(f"terms @@ {tsquery_of(place)}" for place in range(len(spelled)))
    named = (
        f"names && %(words{place})s::text[]" if also else f"%(word{place})s::text = ANY(names)"
        for place, also in enumerate(spelled)
    )
    return held, _mask(named)


def bits_read(masks: Sequence[int] | Places, lexemes: Sequence[str]) -> Flags:
    """Decode masks into a flag matrix with one column per lexeme."""
    flags: Flags = (np.asarray(masks, np.int64)[:, None] >> np.arange(len(lexemes)) & 1).astype(bool)
    return flags


def _mask(flags: Iterable[str]) -> str:
    """SQL of conditions as the bits of one number; the first is the lowest bit."""
    return " | ".join(f"(({flag})::integer::bigint << {place})" for place, flag in enumerate(flags)) or "0::bigint"


def tsquery_of(place: int) -> str:
    return f"%(terms{place})s::tsquery"


def holder_query(word: str, spellings: Spellings) -> str:
    """The tsquery for items with a lexeme, or with all lexemes of another spelling."""
    others = (" & ".join(map(_quoted, also)) for also in spellings.get(word, ()))
    return " | ".join((_quoted(word), *(f"({each})" for each in others)))


def _quoted(lexeme: str) -> str:
    """A lexeme quoted for a tsquery."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


READ_WHOLE = 20_000
"""Of a larger collection whose vector index is not there yet, the vectors of the latest so many items are compared; the
others are found by words."""
COUNTED = 2_000
"""A word in this many items is common: counted in the background (`statistics_refresh`), not here."""
MAX_OF_USER = 5_000
"""The latest so many items of a user, and of everybody, are counted for a search of one user's."""
MAX_LEXEMES = 64
MAX_SPELLINGS = 16
"""Maximum number of other names of subjects that a query names."""


def counts_read(view: PersonaMemory, query: str, users: Sequence[str] | None = None) -> Counts:
    """Counts over the view's collections, and of the query's lexemes in them, with the other spellings of the subjects
    that the query names: one statement. With `users`, only their items are counted, so that how much an agent knows of
    others changes no score."""
    statement = _counts_statement(view.persona, int(view.agent.pk), users is not None)
    # So many tell a collection that is read in part. To count a million that just came would take a second.
    values: dict[str, Any] = {"query": query, "personas": array_text(view.personas), "enough": READ_WHOLE + 1}
    if users is not None:
        values["users"] = list(users)
    [(model, held, df, every, asked, spelled, split)] = rows_prepared(statement, values)
    if users is not None:
        items, mean = int(every[0]), float(every[1])
        large = ((persona, indexed) for n, _, persona, indexed in held or () if n > READ_WHOLE)
        unindexed = frozenset(persona for persona, indexed in large if indexed != model)
    elif held:
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
    for word, parts in split or ():
        # What holds the word holds its parts as well.
        if word in holding:
            spellings.setdefault(word, []).append(parts)
            holding[word] = max(holding[word], min(frequencies.get(each, 0) for each in parts))
    return Counts(model or "", items, mean, holding, spellings, unindexed)


@lru_cache(maxsize=STATEMENTS_KEPT)
def _counts_statement(persona: str, agent: int, of_users: bool) -> str:
    view = VIEWS[persona](Agent(pk=agent))
    dictionary = f"{dictionary_sql(agent)}::regconfig"
    counted = holders_of(
        view, "1 AS one", f"nous_agent_lexemes(agent_id, terms) && ARRAY['{agent}:' || counted.lexeme]"
    )
    count = f"""CASE
        WHEN EXISTS (SELECT 1 FROM held WHERE jsonb_exists(common, lexeme))
        THEN (SELECT sum((common ->> lexeme)::integer) FROM held)
        ELSE (SELECT count(*) FROM (SELECT one FROM {counted} AS matching LIMIT {COUNTED}) AS few) END"""  # noqa: S608
    own, every = "", source_of(view, "words", "active")
    known = "EXISTS (SELECT 1 FROM held)"
    if of_users:
        theirs = source_of(view, "id, terms, words", "active AND user_key = ANY(%(users)s::text[])")
        own = f"""own AS MATERIALIZED (
    SELECT tsvector_to_array(terms) AS lexemes, words FROM {theirs} AS theirs ORDER BY id DESC LIMIT {MAX_OF_USER}
), """  # noqa: S608
        count, every, known = "(SELECT count(*) FROM own WHERE counted.lexeme = ANY(lexemes))", "own", "false"
    return f"""
WITH {own}read AS MATERIALIZED (
    SELECT lexeme, positions[1] AS place
    FROM unnest({terms_sql(agent, "%(query)s::text")}) ORDER BY place, lexeme LIMIT {MAX_LEXEMES}
), told AS MATERIALIZED (
    SELECT array_agg(lexeme) AS words FROM read
), split AS MATERIALIZED (
    SELECT DISTINCT tsvector_to_array(to_tsvector({dictionary}, word[1])) AS whole, parts
    FROM regexp_matches(%(query)s::text, '[A-Za-z0-9]+', 'g') AS word,
        LATERAL tsvector_to_array(to_tsvector({dictionary}, nous_parts(word[1]))) AS parts
    WHERE EXISTS (SELECT 1 FROM read WHERE place IS NULL)
), asked AS MATERIALIZED (
    SELECT lexeme FROM read
    WHERE place IS NOT NULL OR NOT EXISTS (SELECT 1 FROM split WHERE lexeme = ANY(parts))
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
    SELECT lexeme FROM asked UNION SELECT unnest(also) FROM spelled UNION SELECT unnest(parts) FROM split
), held AS MATERIALIZED (
    SELECT items, mean_words, common, persona, vector_index_model FROM memory_searchstatistics
    WHERE agent_id = {agent} AND persona = ANY(%(personas)s::text[])
)
SELECT
    (SELECT name FROM memory_embeddingmodel WHERE state = 'active'),
    (SELECT json_agg(json_build_array(items, mean_words, persona, vector_index_model)) FROM held),
    (SELECT json_object_agg(lexeme, {count}) FROM counted),
    CASE WHEN {known} THEN NULL ELSE
        (SELECT json_build_array(count(*), coalesce(avg(words), 0))
        FROM (SELECT words FROM {every} AS every LIMIT %(enough)s) AS part)
    END,
    (SELECT array_agg(lexeme) FROM asked),
    (SELECT json_agg(json_build_array(said, also)) FROM spelled),
    (SELECT json_agg(json_build_array(whole[1], parts)) FROM split WHERE cardinality(parts) > 1)
"""  # noqa: S608


COUNT_FROM = 2_000
"""Items of a collection from which its counts are kept."""
DRIFT = 0.1
"""Counts are renewed when the number of items has changed by this share."""


def statistics_refresh() -> int:
    """Renew the counts of large collections that have changed; returns how many. One run at a time does it.

    Outside of any transaction. Where this program owns the tables itself, and no pooler shares its connection, it keeps
    their vector indexes too.
    """
    with advisory_lock("nous.search.statistics") as mine:
        if not mine:
            return 0
        renewed = _refresh()
    # What the making of an index sets on its connection would be another's behind a pooler.
    if settings.DB_PREPARE and may_index():
        vector_indexes_keep()
    return renewed


def _refresh() -> int:
    held = {(row.persona, row.agent_id): row for row in SearchStatistics.objects.all()}
    renewed = 0
    for table, persona in PERSONA_OF_TABLE.items():
        sizes = dict(sql_rows(f"SELECT agent_id, count(*) FROM {table} GROUP BY agent_id"))  # noqa: S608
        for agent_id in sizes.keys() | {agent for kept, agent in held if kept == persona}:
            size = sizes.get(agent_id, 0)
            row = held.get((persona, agent_id))
            if size < COUNT_FROM * (1 - DRIFT if row else 1):
                if row:
                    row.delete()
            elif row is None or abs(size - row.items) > DRIFT * row.items:
                _count(table, persona, agent_id, row)
                renewed += 1
    return renewed


def statistics_recount(agent_id: int) -> None:
    """Count the words of an agent's large collections again, after they were read otherwise."""
    for row in SearchStatistics.objects.filter(agent=agent_id):
        table = next(table for table, persona in PERSONA_OF_TABLE.items() if persona == row.persona)
        _count(table, row.persona, agent_id, row)


def _count(table: str, persona: str, agent_id: int, row: SearchStatistics | None) -> None:
    with transaction.atomic():
        items, mean = sql_row(
            f"SELECT count(*), coalesce(avg(words), 0) FROM {table} WHERE agent_id = %s AND active",  # noqa: S608
            [agent_id],
        )
        common = dict(
            sql_rows(
                "SELECT word, ndoc FROM ts_stat(%s) WHERE ndoc >= %s",
                [f"SELECT terms FROM {table} WHERE agent_id = {int(agent_id)} AND active", COUNTED // 10],  # noqa: S608
            )
        )
        row = row or SearchStatistics(agent_id=agent_id, persona=persona)
        row.items, row.mean_words, row.common, row.counted_at = items, float(mean), common, clock.now()
        row.save()
