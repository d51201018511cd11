"""Retired memories as candidates for an explanation: they get verdicts like the others, and are refused."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import structlog
from django.db import DatabaseError, connection

from context.engine.assembly import Candidate
from context.engine.retrieval.candidates import NEAR_MISS, candidate_of
from memory.embedding import thresholds_of
from memory.models import KEYS, Keys, Validity, validity_at
from memory.persona import PersonaMemory
from memory.search.fusion import Candidates, QueryContext
from memory.search.index_tables import agent_unindexed, source_of
from memory.search.query_word_counts import bits_read, has_spellings, lexeme_values, masks_of
from memory.search.ranking import candidates_rank
from memory.search.ranking_features import query_of
from memory.search.request import MOMENT, NOT_VALID, VALID, known_of, wanted_of
from memory.search.result import HIT_COLUMNS, Retirement, SearchHit
from memory.search.row_retrieval import (
    LEXICAL_ROWS,
    SPEAKER_OF_KIND,
    STANDING_LEVEL,
    distance_of,
    query_vector,
    selective,
)
from memory.search.search import calibrated

RETIRED_ROWS = 30
"""Maximum number of rows that are scored, the best by meaning and by words."""
LATEST = 1_000
"""The last so many retired rows are compared by meaning; older ones only if they contain words of the query."""


def retired_search(view: PersonaMemory, context: QueryContext) -> list[SearchHit]:
    """The memories of `view` that match a query and are replaced, retired, not valid or out of scope, best first.

    Runs one statement. A hit that is only of another project or task has no `retirement`.
    """
    rows = [row for row in _fetch(view, context) if view.shows(Keys(*(row[name] for name in KEYS)))]
    counts = context.counts
    cosines = np.array([row["cosine"] for row in rows], float)
    alone = np.full(len(rows), -1, np.int64)
    candidates = Candidates(
        cosine=calibrated(cosines, thresholds_of(counts.model)),
        contains=bits_read([row["held"] for row in rows], context.lexemes),
        named=bits_read([row["named"] for row in rows], context.lexemes),
        nameless=np.array([not row["names"] for row in rows], bool),
        length=np.array([row["words"] for row in rows], float),
        loop=alone,
        position=alone,
        hit=np.ones(len(rows), bool),
        says_time=np.array([row["says_time"] for row in rows], bool),
        passage=np.full(len(rows), np.nan),
        second=np.full(len(rows), np.nan),
        speaker=np.array([SPEAKER_OF_KIND.get(row["kind"], 0) for row in rows], np.int64),
        standing=np.array([STANDING_LEVEL.get(row["standing"], 0) for row in rows], np.int64),
        asks=np.array([row["text"].endswith("?") for row in rows], bool),
    )
    query = query_of(context.request.query, context.lexemes)
    ranking = candidates_rank(query, candidates, counts.statistics, uniform_decay=context.request.uniform_decay)
    moment = context.request.moment
    return [
        _hit(rows[place], float(ranking.relevance[place]), float(ranking.lexical[place]), moment)
        for place in ranking.order
    ]


def _fetch(view: PersonaMemory, context: QueryContext) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(*_statement(view, context))
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _statement(view: PersonaMemory, context: QueryContext) -> tuple[str, dict[str, Any]]:
    """The statement and its values: the best RETIRED_ROWS rows as of the request's moment, with the scored columns.

    The number of rows that it reads is bounded: LEXICAL_ROWS that contain rare words of the query, and the LATEST
    retired ones and the LATEST that are not valid. Out-of-scope rows are found by words only. For facts, it adds the
    recorded time and the fact that replaced them. It ignores the request's excluded categories, since core memory is
    replaced too.
    """
    request, counts, vector = context.request, context.counts, context.vector
    wanted, values = wanted_of(replace(request, exclude_categories=(), scope=replace(request.scope, all_projects=True)))
    shown, keys = request.scope.condition()
    values |= keys
    retired, out_of_scope = f"(NOT active AND ({shown}))", f"NOT ({shown})"
    if request.as_of is not None:
        retired = f"({retired} AND retired_at <= {MOMENT} AND recorded_at <= {MOMENT})"
    known, moment = known_of(request)
    values |= moment
    not_valid = f"({known} AND {NOT_VALID} AND ({shown}))"
    out_of_scope = f"({out_of_scope} AND {known} AND {VALID})"
    gone = f"({retired} OR {not_valid} OR {out_of_scope}) AND {wanted}"
    values |= lexeme_values(context.lexemes, context.counts.spellings)
    values |= {"agent": view.agent.pk, "personas": list(view.personas), "model": counts.model}
    values["projects"] = None if view.projects is None else ["", *sorted(view.projects)]
    contains, named = masks_of(has_spellings(context.lexemes, context.counts.spellings))
    cosine = "NULL::double precision"
    if vector is not None:
        values["vector"] = query_vector(vector)
        cosine = f"CASE WHEN model = %(model)s THEN -({distance_of(len(vector))}) END"
    columns = f"""
        id, item_type, item_id, persona, kind, category, scope, project, task, user_key AS "user", subject, loop_id,
        tags::json AS tags, importance, happened_at, recorded_at, {out_of_scope} AS out_of_scope, retired_at,
        valid_from, valid_until, {not_valid} AS not_valid, text, standing, words, names, says_time,
        {cosine} AS cosine, {contains} AS held, {named} AS named"""
    last = source_of(view, "id, retired_at", f"{retired} AND {wanted}")
    likely = f"(SELECT id FROM {last} AS last ORDER BY retired_at DESC NULLS LAST LIMIT {LATEST})"  # noqa: S608
    ended = source_of(view, "id, valid_until", f"{not_valid} AND {wanted}")
    likely += f" UNION (SELECT id FROM {ended} AS ended ORDER BY valid_until DESC NULLS FIRST LIMIT {LATEST})"  # noqa: S608
    if context.lexemes:
        holding = []
        present = sorted((counts.df.get(word, 0), word) for word in context.lexemes)
        for place, (operator, words) in enumerate(selective(counts, present)):
            values[f"keys{place}"] = [f"{int(view.agent.pk)}:{word}" for word in words]
            holding.append(f"nous_agent_lexemes(agent_id, terms) {operator} %(keys{place})s::text[]")
        # In this form the planner uses the index of words and does not read all retired rows.
        holders = source_of(view, "id", f"({' OR '.join(holding)}) AND {gone}", agent=agent_unindexed())
        likely += f" UNION (SELECT id FROM {holders} AS holder LIMIT {LEXICAL_ROWS})"  # noqa: S608
    statement = f"""
WITH likely AS MATERIALIZED ({likely}), gone AS MATERIALIZED (
    SELECT * FROM {source_of(view, columns, "id IN (SELECT id FROM likely)")} AS item
    ORDER BY coalesce(cosine, 0) + bit_count(held::bit(64)) / {max(len(context.lexemes), 1)}::float8 DESC, id
    LIMIT {RETIRED_ROWS}
)
SELECT gone.*, fact.content, fact.invalidated_at IS NOT NULL AS was_invalidated,
    heir.id AS successor, heir.content AS successor_text
FROM gone
LEFT JOIN memory_fact AS fact ON fact.id = CASE WHEN item_type = 'fact' THEN item_id::uuid END
    AND fact.agent_id = %(agent)s AND fact.persona = ANY(%(personas)s)
LEFT JOIN memory_fact AS heir ON heir.id = fact.superseded_by_id AND heir.agent_id = fact.agent_id
    AND heir.agent_id = %(agent)s AND heir.persona = ANY(%(personas)s)
    AND (%(projects)s::text[] IS NULL OR heir.project = ANY(%(projects)s::text[]))
    AND heir.user_key IN ('', gone."user")
ORDER BY gone.id
"""  # noqa: S608
    return statement, values


def _hit(row: Mapping[str, Any], relevance: float, lexical: float, moment: datetime) -> SearchHit:
    validity = validity_at(row["valid_from"], row["valid_until"], moment) if row["not_valid"] else Validity.CURRENT
    ends = [moment for moment in (row["retired_at"], row["valid_until"]) if moment is not None]
    begins = [moment for moment in (row["recorded_at"], row["valid_from"]) if moment is not None]
    was_included = not row["was_invalidated"] and ends and max(begins) < min(ends)
    return SearchHit(
        type=row["item_type"],
        id=row["item_id"],
        content=row["content"] or row["text"],
        metadata={},
        score=round(relevance, 6),
        cosine=None if row["cosine"] is None else round(row["cosine"], 6),
        lexical=round(lexical, 6),
        **{name: row[name] for name in HIT_COLUMNS},
        retirement=None
        if row["out_of_scope"]
        else Retirement(
            {Validity.EXPIRED: row["valid_until"], Validity.NOT_YET_VALID: row["valid_from"]}.get(
                validity, row["retired_at"]
            ),
            successor=str(row["successor"] or ""),
            successor_text=row["successor_text"] or "",
            was_invalidated=bool(row["was_invalidated"]),
            validity=validity,
            included_until=min(ends) if was_included else None,
        ),
    )


logger = structlog.get_logger(__name__)

MAX_RETIRED = 10


def with_retired(
    view: PersonaMemory, candidates: Sequence[Candidate], query: QueryContext | None
) -> Sequence[Candidate]:
    """Add the best few replaced or retired memories, in one more statement. Filters refuse them.

    `query` is the search's processed query, None if there was none.
    """
    if query is None:
        return candidates
    try:
        hits = retired_search(view, query)
    except DatabaseError:
        # An explanation less is no reason to answer nothing.
        logger.exception("context.retired_failed")
        return candidates
    known = {candidate.key for candidate in candidates}
    gone = [candidate_of(hit) for hit in hits if hit.score >= NEAR_MISS and (hit.type, hit.id) not in known]
    return (*candidates, *gone[:MAX_RETIRED])
