"""How far behind the best a candidate is still worth reading: a few where the best stand out, many where they do not.

What is read is chosen to make the expected precision plus a multiple of the expected recall as large as possible. A
logistic regression on the ranker's scores gives the chance that a candidate answers. For measures of a whole list by
expectation: Ye et al., "Optimizing F-Measures: A Tale of Two Approaches", 2012.
"""

import numpy as np

from memory.search.fusion import Values
from memory.search.learned_ranker import SIGNS, Ranker
from memory.search.ranking_features import Matrix

MOST = 40
"""Of an answer no more candidates are ever worth reading."""
LEAST_EXPECTED = 0.3
"""Of an answer at least so much is expected to be among the candidates, however little each of them promises."""
SHORTEST = 1e-3
LAST = 1.0
"""How much further than the last candidate the reach goes when all are worth reading."""


def signs(ranks: Values, closeness: Values, log_odds: float, wants_many: bool) -> Matrix:
    """What the chance of each candidate follows from, a column for each of SIGNS; `ranks` are the best first."""
    behind = ranks[0] - ranks
    place = np.log1p(np.arange(len(ranks)))
    matrix = np.empty((len(ranks), len(SIGNS)))
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


def reach_of(learned: Ranker, ranks: Values, closeness: Values, log_odds: float, wants_many: bool) -> float:
    """How far behind the best of `ranks`, which are the best first, a candidate is still worth reading; above 0."""
    chances = 1 / (1 + np.exp(-(signs(ranks, closeness, log_odds, wants_many) @ learned.chance)))
    found = np.cumsum(chances[:MOST])
    worth = found / np.arange(1, len(found) + 1) + learned.recall_weight * found / max(chances.sum(), LEAST_EXPECTED)
    last = int(worth.argmax())
    if last + 1 == len(ranks):
        return float(ranks[0] - ranks[-1] + LAST)
    return max(float(ranks[0] - (ranks[last] + ranks[last + 1]) / 2), SHORTEST)
