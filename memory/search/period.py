"""Memories by their time: those of a period, beside those that a search finds by words and by meaning."""

from dataclasses import replace

import numpy as np

from memory.embedding.protocol import Vectors
from memory.persona import PersonaMemory
from memory.search.fusion import Ranking
from memory.search.index_tables import source_of
from memory.search.request import Period, SearchRequest, visible_of, wanted_of
from memory.search.row_retrieval import CandidateSet, distance_of, query_vector
from nousweb.lib.prepared_statements import rows_prepared

ROWS_OF_TYPE = 30
"""Maximum number of memories of a period that are read of each type."""
WITHIN = 1.5
"""Relevance of a memory of the period is multiplied by this, if the question has a topic beside the time."""
STEP = 0.002
"""By so much less relevant is each memory of a period than the one before it, if time alone ranks them."""
TIME = "(CASE item_type WHEN 'fact' THEN recorded_at ELSE happened_at END)"
"""The time of a row of the index: when it happened; of a fact, when it was learnt."""


def period_fetch(view: PersonaMemory, request: SearchRequest, model: str, vector: Vectors | None) -> list[int]:
    """Ids of the memories of the request's period in the index. With a topic the nearest of each type; else, or without
    vectors, those of the types that are asked for first, the latest first."""
    period = request.period
    if period is None:
        return []
    known, values = visible_of(request)
    wanted, wanted_values = wanted_of(request)
    values |= wanted_values | {"p_types": list(period.types), "p_rows": ROWS_OF_TYPE}
    ends = {"p_start": (">=", period.start), "p_end": ("<", period.end)}
    given = {name: end for name, end in ends.items() if end[1] is not None}
    values |= {name: moment for name, (_, moment) in given.items()}
    within = [
        " AND ".join(f"{time} {sign} %({name})s::timestamptz" for name, (sign, _) in given.items())
        for time in (TIME, "valid_from")
    ]
    nearest = "0"
    if not period.alone and vector is not None:
        values |= {"vector": query_vector(vector), "p_model": model}
        nearest = f"CASE WHEN model = %(p_model)s THEN {distance_of(len(vector))} END"
    rows = source_of(
        view,
        f"id, item_type, {TIME} AS time, {nearest} AS distance",
        f"({' OR '.join(f'({one})' for one in within)}) AND {known} AND {wanted}",
    )
    statement = (
        "SELECT id FROM (SELECT *, row_number() OVER (PARTITION BY item_type ORDER BY distance, time DESC, id DESC)"  # noqa: S608
        f" AS place FROM {rows} AS row) AS ranked WHERE place <= %(p_rows)s"
        " ORDER BY item_type <> ALL(%(p_types)s::text[]), distance, time DESC, id DESC"
    )
    return [row[0] for row in rows_prepared(statement, values)]


def period_first(candidates: CandidateSet, ranking: Ranking, ids: list[int], period: Period) -> Ranking:
    """The ranking with the memories of the period, `ids`, first: in their order if time alone ranks them, else by their
    topic. Of other memories that are as near to the topic, those of the types that are asked for stay behind."""
    places = {key: place for place, key in enumerate(ids)}
    number = np.array([places.get(key, -1) for key in candidates.ids])
    within = number >= 0
    if period.alone:
        relevance = np.where(within, 1 - STEP * number, ranking.relevance)
    else:
        relevance = np.where(within, np.minimum(WITHIN * ranking.relevance, 1.0), ranking.relevance)
        for kind in period.types:
            is_kind = np.array([one == kind for one in candidates.types], bool)
            if (is_kind & within).any():
                relevance = np.where(is_kind, (within + ranking.relevance) / 2, relevance)
    before = np.argsort(ranking.order)
    return replace(ranking, order=np.lexsort((before, -relevance)), relevance=relevance)
