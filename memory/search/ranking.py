"""Order and scores of the candidates of a search: the linear fusion, corrected by the learned ranker."""

import numpy as np

from memory.search.fusion import (
    FUSION_WEIGHTS,
    RELEVANT,
    Candidates,
    Flags,
    FusionWeights,
    Query,
    Ranking,
    Statistics,
    answerability_log_odds,
    features,
    own_relevance,
    relevance,
)
from memory.search.learned_ranker import ranker
from memory.search.ranking_features import ranking_features
from memory.search.relevance_cutoff import relevance_cutoff


def candidates_rank(
    query: Query,
    rows: Candidates,
    stats: Statistics,
    weights: FusionWeights = FUSION_WEIGHTS,
    *,
    wanted: Flags | None = None,
    uniform_decay: bool = False,
) -> Ranking:
    """Rank and score all candidates, relative to the best of those that are `wanted` (all if it is None).

    With `uniform_decay`, as for prompts, the relevance falls with the distance at the same rate for every query, and a
    candidate whose own evidence is below the bar gets no more than that and stands behind the others; else it is
    RELEVANT at the query's own cutoff. Deterministic: ties are ordered by closeness, then by input order.
    """
    if not len(rows):
        return Ranking(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    f = features(query, rows, stats, weights)
    learned = ranker()
    ranks = learned.scores(ranking_features(query, rows, f, stats, weights))
    order = np.lexsort((np.arange(len(rows)), -f.closeness, -ranks))
    shown = order if wanted is None or not wanted.any() else order[wanted[order]]
    log_odds = answerability_log_odds(f, stats.items, weights)
    cutoff = (
        None
        if uniform_decay
        else relevance_cutoff(learned, ranks[shown], f.closeness[shown], log_odds, query.wants_many)
    )
    behind = np.maximum(ranks[shown[0]] - ranks, 0.0)
    value = relevance(behind, log_odds, learned.half_gap, cutoff)
    if uniform_decay:
        own = own_relevance(f, weights)
        value = np.where(own < RELEVANT, np.minimum(value, own), value)
        order = order[np.argsort(-value[order], kind="stable")]
    return Ranking(order, value, np.minimum(f.coverage, 1.0))
