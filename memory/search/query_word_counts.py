"""How many items hold each word of a query, how large its collections are, and other names of its subjects: one
statement."""

from functools import lru_cache

from identity.models import Agent
from memory.persona import VIEWS, PersonaMemory
from memory.search.index_tables import STATEMENTS_KEPT, holders_of, source_of
from memory.search.languages import dictionary_sql, terms_sql
from memory.search.query_context import Counts
from nousweb.lib.prepared_statements import array_text, rows_prepared

READ_WHOLE = 20_000
"""Of a larger collection whose vector index is not there yet, the vectors of the latest so many items are compared; the
others are found by words."""
COUNTED = 2_000
"""A word in this many items is common: counted in the background (memory.search.index_statistics), not here."""
MAX_LEXEMES = 64
MAX_SPELLINGS = 16
"""Maximum number of other names of subjects that a query names."""


def counts_read(view: PersonaMemory, query: str) -> Counts:
    """Counts over the view's collections, and of the query's lexemes in them, with the other spellings of the subjects
    that the query names: one statement."""
    statement = _counts_statement(view.persona, int(view.agent.pk))
    [(model, held, df, every, asked, spelled, split)] = rows_prepared(
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
    for word, parts in split or ():
        # What holds the word holds its parts as well.
        if word in holding:
            spellings.setdefault(word, []).append(parts)
            holding[word] = max(holding[word], min(frequencies.get(each, 0) for each in parts))
    return Counts(model or "", items, mean, holding, spellings, unindexed)


@lru_cache(maxsize=STATEMENTS_KEPT)
def _counts_statement(persona: str, agent: int) -> str:
    view = VIEWS[persona](Agent(pk=agent))
    dictionary = f"{dictionary_sql(agent)}::regconfig"
    counted = holders_of(
        view, "1 AS one", f"nous_agent_lexemes(agent_id, terms) && ARRAY['{agent}:' || counted.lexeme]"
    )
    return f"""
WITH read AS MATERIALIZED (
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
    (SELECT json_object_agg(lexeme, CASE
        WHEN EXISTS (SELECT 1 FROM held WHERE jsonb_exists(common, lexeme))
        THEN (SELECT sum((common ->> lexeme)::integer) FROM held)
        ELSE (SELECT count(*) FROM (SELECT one FROM {counted} AS matching LIMIT {COUNTED}) AS few) END) FROM counted),
    CASE WHEN EXISTS (SELECT 1 FROM held) THEN NULL ELSE
        (SELECT json_build_array(count(*), coalesce(avg(words), 0)) FROM {source_of(view, "words", "active")} AS every)
    END,
    (SELECT array_agg(lexeme) FROM asked),
    (SELECT json_agg(json_build_array(said, also)) FROM spelled),
    (SELECT json_agg(json_build_array(whole[1], parts)) FROM split WHERE cardinality(parts) > 1)
"""  # noqa: S608
