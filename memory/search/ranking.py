"""Order and scores of the candidates of a search: the linear fusion, corrected by the learned ranker."""

from collections.abc import Sequence

import numpy as np

from memory.search.fusion import (
    FUSION_WEIGHTS,
    RELEVANT,
    Candidates,
    Features,
    Flags,
    FusionWeights,
    Places,
    Query,
    Ranking,
    Statistics,
    Values,
    answerability_log_odds,
    features,
    own_relevance,
    relevance,
)
from memory.search.input_kinds import KINDS, InputKind, Told
from memory.search.ranking_features import CUTOFF_FEATURES, Matrix, Ranker, ranker, ranking_features

MAX_RELEVANT = 40
"""Maximum number of relevant candidates per query."""
MIN_EXPECTED_ANSWERS = 0.3
"""Minimum expected number of answering candidates, however low their probabilities."""
MIN_CUTOFF = 1e-3
"""Smallest cutoff: it is always above 0."""
MARGIN_AFTER_LAST = 1.0
"""Distance that is added behind the last candidate if all are relevant."""


def cutoff_features(ranks: Values, closeness: Values, log_odds: float, wants_many: bool) -> Matrix:
    """Feature matrix of the probability that a candidate answers: a column per name in CUTOFF_FEATURES, a row per
    candidate. `ranks` are the ranker's scores, best first."""
    behind = ranks[0] - ranks
    place = np.log1p(np.arange(len(ranks)))
    matrix = np.empty((len(ranks), len(CUTOFF_FEATURES)))
    for number, column in enumerate(
        (
            1.0,
            -behind,
            place,
            behind[min(9, len(ranks) - 1)],
            behind[min(1, len(ranks) - 1)],
            log_odds,
            wants_many,
            closeness,
            -behind * place,
        )
    ):
        matrix[:, number] = column
    return matrix


def relevance_cutoff(learned: Ranker, ranks: Values, closeness: Values, log_odds: float, wants_many: bool) -> float:
    """The cutoff of a query, at least MIN_CUTOFF. `ranks` are the ranker's scores, best first."""
    chances = 1 / (1 + np.exp(-(cutoff_features(ranks, closeness, log_odds, wants_many) @ learned.chance)))
    found = np.cumsum(chances[:MAX_RELEVANT])
    precision = found / np.arange(1, len(found) + 1)
    worth = precision + learned.recall_weight * found / max(chances.sum(), MIN_EXPECTED_ANSWERS)
    last = int(worth.argmax())
    if last + 1 == len(ranks):
        return float(ranks[0] - ranks[-1] + MARGIN_AFTER_LAST)
    return max(float(ranks[0] - (ranks[last] + ranks[last + 1]) / 2), MIN_CUTOFF)


MATTERS = {"bias": -5.26, "closest": 4.7, "ahead": 6.0, "coverage": 3.2}
"""The weights of the log-odds that an item matters to a message (benchmarks.kinds_of_input): its closeness, how far it
is ahead of the usual best, and the share of the message's words. Less than even odds are less than RELEVANT."""
USUAL_BEST = 5
"""What is ahead of this many others stands out."""
NO_OTHERS = 0.1
"""The closeness of what has nothing to do with a message, for small collections."""


def matter_relevance(closest: Values, coverage: Values) -> Values:
    """Relevance in [0, 1] of each candidate for a message: RELEVANT if it matters as likely as not."""
    ahead = closest - (np.sort(closest)[-USUAL_BEST - 1] if len(closest) > USUAL_BEST else NO_OTHERS)
    w = MATTERS
    log_odds = w["bias"] + w["closest"] * closest + w["ahead"] * ahead + w["coverage"] * np.minimum(coverage, 1.0)
    return np.asarray(1 / (1 + np.exp(-log_odds)))


SAME_QUESTION, SAME_WORDS = 0.75, 0.98
"""The closeness from which an item that only asks, asks the same as the query or a part of it, and from which any item
has its words."""
ONLY_ASKS = 20
"""An item with more words that ends with a question says something before it."""

WORDED = 0.3
"""The share of an input's words, weighted by rarity, from which an item holds much of them."""


def orders_of(rows: Candidates, f: Features, ranked: Places) -> tuple[Places, Places, Places, Places]:
    """The orders that Shares name, of the candidates `ranked` by the ranker. That by words has what holds any."""

    def by(values: Values) -> Places:
        return ranked[np.argsort(-values[ranked], kind="stable")]

    words = by(f.own)
    return by(rows.moved) if len(rows.moved) else ranked, ranked, by(f.closeness), words[f.own[words] > 0]


def orders_merged(orders: Sequence[Places], shares: Sequence[int]) -> Places:
    """Several orders of the same candidates as one, in rounds: of each order the next as many as its share, unless they
    are there. So the first k hold the first `k // sum(shares) * share` of each."""
    parts = [(order, share) for order, share in zip(orders, shares, strict=True) if share]
    rounds = np.concatenate([np.arange(len(order)) // share for order, share in parts])
    places = np.concatenate([order for order, _ in parts])[np.argsort(rounds, kind="stable")]
    _, first = np.unique(places, return_index=True)
    return places[np.sort(first)]


def candidates_rank(
    query: Query,
    rows: Candidates,
    stats: Statistics,
    weights: FusionWeights = FUSION_WEIGHTS,
    *,
    wanted: Flags | None = None,
    uniform_decay: bool = False,
    kind: InputKind = KINDS["question"],
) -> Ranking:
    """Rank and score all candidates, relative to the best of those that are `wanted` (all if it is None).

    With `uniform_decay`, as for prompts, what only repeats a question, such as the question itself when it was asked
    before, does not measure the others, the relevance falls with the distance at the same rate for every query, and a
    candidate whose own evidence is below the bar gets no more than that and stands behind the others; else it is
    RELEVANT at the query's own cutoff. For a message it is that of `matter_relevance`. Deterministic: ties are ordered
    by closeness, then by input order.
    """
    if not len(rows):
        return Ranking(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    f = features(query, rows, stats, weights)
    learned = ranker()
    ranks = learned.scores(ranking_features(query, rows, f, stats, weights))
    order = np.lexsort((np.arange(len(rows)), -f.closeness, -ranks))
    is_shown = np.ones(len(rows), bool) if wanted is None or not wanted.any() else wanted
    shown, others = order[is_shown[order]], order[~is_shown[order]]
    log_odds = answerability_log_odds(f, stats.items, weights)
    cutoff = (
        None
        if uniform_decay
        else relevance_cutoff(learned, ranks[shown], f.closeness[shown], log_odds, query.wants_many)
    )
    behind = np.maximum(ranks[shown[0]] - ranks, 0.0)
    value = relevance(behind, log_odds, learned.half_gap, cutoff)
    tells = f.closest < np.where(rows.asks & (rows.length <= ONLY_ASKS), SAME_QUESTION, SAME_WORDS)
    if uniform_decay and kind.told == Told.ANSWERS and tells[shown].any() and not tells.all():
        behind = np.maximum(ranks[shown[tells[shown]][0]] - ranks, 0.0)
        log_odds = answerability_log_odds(f, stats.items, weights, tells)
        value = np.where(tells, relevance(behind, log_odds, learned.half_gap, None), value)
    matters = bool(len(rows.moved)) and kind.told == Told.MATTERS
    shares = kind.shares[bool(f.coverage[shown].max() >= WORDED)]
    order = np.concatenate([orders_merged(orders_of(rows, f, shown), shares), others])
    if matters:
        # What matters by itself comes first.
        value = matter_relevance(f.closest, f.coverage)
        order = order[np.argsort(-np.where(value < RELEVANT, 0.0, value)[order], kind="stable")]
    value[order] = np.sort(value)[::-1]
    if uniform_decay and not matters:
        own = own_relevance(f, weights)
        value = np.where(own < RELEVANT, np.minimum(value, own), value)
        order = order[np.argsort(-value[order], kind="stable")]
    return Ranking(order, value, np.minimum(f.coverage, 1.0))
