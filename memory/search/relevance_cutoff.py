"""The relevance cutoff of a query: the largest score gap to the best candidate at which a candidate is still relevant.

It includes few candidates where the best stand out, and many where they do not. It maximises the expected precision
plus a multiple of the expected recall; a logistic regression on the ranker's scores estimates the probability that a
candidate answers the query. On expected measures of a whole list: Ye et al., "Optimizing F-Measures: A Tale of Two
Approaches", 2012.
"""

import numpy as np

from memory.search.fusion import Values
from memory.search.learned_ranker import CUTOFF_FEATURES, Ranker
from memory.search.ranking_features import Matrix

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
