"""The order and the scores of a search's candidates: the linear fusion, corrected by the learned ranker."""

import numpy as np

from memory.search.ranker import ranker
from memory.search.ranking_features import ranking_features
from memory.search.scoring import (
    RECIPE,
    Candidates,
    Query,
    Ranking,
    Recipe,
    Statistics,
    features,
    gate,
    relevance,
)


def score(query: Query, rows: Candidates, stats: Statistics, recipe: Recipe = RECIPE) -> Ranking:
    """All candidates, ranked and valued. The same input gives the same output; ties go by closeness, then by order."""
    if not len(rows):
        return Ranking(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    f = features(query, rows, stats, recipe)
    learned = ranker()
    ranks = learned.scores(ranking_features(query, rows, f, recipe))
    value = relevance(ranks, gate(f, stats.items, recipe), learned.half_gap)
    order = np.lexsort((np.arange(len(rows)), -f.closeness, -ranks))
    return Ranking(order, value, np.minimum(f.coverage, 1.0))
