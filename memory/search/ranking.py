"""The order and the scores of a search's candidates: the linear fusion, corrected by the learned ranker."""

import numpy as np

from memory.search.fusion import (
    RECIPE,
    Candidates,
    Flags,
    Query,
    Ranking,
    Recipe,
    Statistics,
    features,
    gate,
    relevance,
)
from memory.search.learned_ranker import ranker
from memory.search.ranking_features import ranking_features
from memory.search.relevance_cutoff import reach_of


def candidates_rank(
    query: Query,
    rows: Candidates,
    stats: Statistics,
    recipe: Recipe = RECIPE,
    *,
    wanted: Flags | None = None,
    steady: bool = False,
) -> Ranking:
    """All candidates, ranked and valued, against those that are `wanted`: all of them when it is left out.

    `steady` values fall alike for every query. The same input gives the same output; ties go by closeness, then by
    order.
    """
    if not len(rows):
        return Ranking(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    f = features(query, rows, stats, recipe)
    learned = ranker()
    ranks = learned.scores(ranking_features(query, rows, f, stats, recipe))
    order = np.lexsort((np.arange(len(rows)), -f.closeness, -ranks))
    shown = order if wanted is None or not wanted.any() else order[wanted[order]]
    log_odds = gate(f, stats.items, recipe)
    reach = None if steady else reach_of(learned, ranks[shown], f.closeness[shown], log_odds, query.wants_many)
    behind = np.maximum(ranks[shown[0]] - ranks, 0.0)
    value = relevance(behind, log_odds, learned.half_gap, reach)
    return Ranking(order, value, np.minimum(f.coverage, 1.0))
