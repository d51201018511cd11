"""References of an answer to the memories of a sent prompt, using the rarity of their words in the store and their
vectors."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from context.feedback.content_words import MONTH_NUMBERS, content_words
from context.feedback.reference_detector import Meaning, Reference, references_of
from context.models import ContextRun
from memory.embedding import EmbeddingFailed, embedder_named
from memory.embedding.thresholds import DEFAULT_MODEL
from memory.models import SearchItem
from memory.persona import VIEWS, PersonaMemory
from memory.search.index_tables import agent_unindexed, source_of
from memory.search.languages import terms_sql
from nousweb.lib.prepared_statements import array_text, rows_prepared

COUNTED = 500
"""Maximum count of items with a word, unless it is counted in the background (index_statistics)."""
LEAST_ITEMS = 1_000
"""Minimum size of the store that is assumed: in five memories no word is rare."""


def word_rarity(view: PersonaMemory, words: Sequence[str]) -> list[float | None]:
    """The rarity of each of `words`: near 1 if few items contain it, near 0 if all do.

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


MAX_COUNTED = 256
"""Words of an answer whose rarity is asked for: first those that a memory has too."""


def answer_references(run: ContextRun, answer: str, items: Sequence[Mapping[str, Any]]) -> list[Reference]:
    """For each of `items`, the memories shown in the run, how surely the answer refers to it.

    Meaning counts where the memories have vectors of the model that the trees know, and where it can be reached. Two
    statements; not to be called in a transaction, since it may wait for the model.
    """
    if not items or not answer.strip():
        return [Reference(0.0) for _ in items]
    view = VIEWS[run.persona](run.agent)
    texts = [item["text"] for item in items]
    rarity = rarity_of(view, answer, texts)
    meaning = meaning_of(view, items)
    try:
        return references_of(answer, texts, question=run.input, rarity=rarity, meaning=meaning)
    except EmbeddingFailed:
        return references_of(answer, texts, question=run.input, rarity=rarity)


def rarity_of(view: PersonaMemory, answer: str, texts: Sequence[str]) -> dict[str, float]:
    """By word of content of the answer, how few memories of the store hold it. One statement."""
    said: dict[str, str] = {}
    for word in content_words(answer):
        if word.text not in MONTH_NUMBERS and not word.text.isdigit():
            said.setdefault(word.text, answer[word.start : word.end])
    held = {word.text for text in texts for word in content_words(text)}
    counted = sorted(said, key=lambda word: word not in held)[:MAX_COUNTED]
    found = word_rarity(view, [said[word] for word in counted])
    return {word: rarity for word, rarity in zip(counted, found, strict=True) if rarity is not None}


def meaning_of(view: PersonaMemory, items: Sequence[Mapping[str, Any]]) -> Meaning | None:
    """The vectors of the memories, by the model that the trees know; None where no memory has one. One statement."""
    rows = view.rows(SearchItem).filter(
        item_type__in={item["type"] for item in items}, item_id__in={item["id"] for item in items}, model=DEFAULT_MODEL
    )
    known = {
        (item_type, item_id): vector
        for item_type, item_id, vector in rows.values_list("item_type", "item_id", "embedding")
        if vector is not None
    }
    if not known:
        return None
    missing = [np.nan] * len(next(iter(known.values())))
    vectors = np.array([known.get((item["type"], item["id"]), missing) for item in items], np.float32)
    return Meaning(vectors, embedder_named(DEFAULT_MODEL).embed_documents)
