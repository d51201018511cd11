"""The rarity of words in a persona's memory (inverse document frequency)."""

import math
from collections.abc import Sequence

from memory.persona import PersonaMemory
from memory.search.index_tables import agent_unindexed, source_of
from memory.search.languages import terms_sql
from nousweb.lib.prepared_statements import array_text, rows_prepared

COUNTED = 500
"""Maximum count of items with a word, unless it is counted in the background (index_statistics)."""
LEAST_ITEMS = 1_000
"""Minimum size of the store that is assumed: in five memories no word is rare."""


def word_rarity(view: PersonaMemory, words: Sequence[str]) -> list[float | None]:
    """For each of `words`, as texts have them, near 1 for one that few items hold, near 0 for one that all do.

    None for one that is not indexed, such as a stop word. One statement.
    """
    if not words:
        return []
    agent = int(view.agent.pk)
    # The keys name the agent, so that the planner does not read the index of all the agent's items beside theirs.
    held = source_of(
        view,
        "1 AS one",
        f"nous_agent_lexemes(agent_id, terms) && ARRAY['{agent}:' || word.lexeme]",
        agent=agent_unindexed(),
    )
    statement = f"""
WITH word AS MATERIALIZED (
    SELECT place, (tsvector_to_array({terms_sql(agent, "text")}))[1] AS lexeme
    FROM unnest(%(words)s::text[]) WITH ORDINALITY AS given (text, place)
), kept AS MATERIALIZED (
    SELECT items, common FROM memory_searchstatistics
    WHERE agent_id = {agent} AND persona = ANY(%(personas)s::text[])
)
SELECT place, CASE
        WHEN lexeme IS NULL THEN NULL
        WHEN EXISTS (SELECT 1 FROM kept WHERE jsonb_exists(common, lexeme))
        THEN (SELECT sum((common ->> lexeme)::integer) FROM kept)
        ELSE (SELECT count(*) FROM (SELECT one FROM {held} AS matching LIMIT {COUNTED}) AS few) END,
    coalesce((SELECT sum(items) FROM kept), 0)
FROM word ORDER BY place
"""  # noqa: S608
    rows = rows_prepared(statement, {"words": list(words), "personas": array_text(view.personas)})
    size = max(int(rows[0][2]), LEAST_ITEMS, *(int(holders or 0) for _, holders, _ in rows))
    most = math.log((size + 1) / 0.5)
    return [None if holders is None else math.log((size + 1) / (int(holders) + 0.5)) / most for _, holders, _ in rows]
