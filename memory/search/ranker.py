"""The learned ranker: small trees over `ranking_features`, read from ranker.json.

benchmarks/fit_ranker.py writes that file.

Numbers only, no code of the library that fitted them: the same input gives the same output on every machine.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.search.ranking_features import NAMES, Matrix
from memory.search.scoring import Places, Values

FILE = Path(__file__).with_name("ranker.json")
LINEAR_COLUMN = NAMES.index("linear")
DEPTH = 3
NODES, LEAVES = 2**DEPTH - 1, 2**DEPTH


@dataclass(frozen=True, slots=True)
class Ranker:
    """Trees of depth DEPTH: node n goes on to 2n + 1, or to 2n + 2 where the feature is above the threshold.

    `features` and `thresholds` have a row of NODES for each tree, `leaves` one of LEAVES; they correct
    `linear` times the linear score. A candidate whose score is `half_gap` behind the best one is worth half of it.
    """

    linear: float
    features: Places
    thresholds: Values
    leaves: Values
    half_gap: float

    def scores(self, matrix: Matrix) -> Values:
        """How well each row of `matrix` answers, against the others of the same query."""
        above: NDArray[np.int64] = (matrix[:, self.features] > self.thresholds).astype(np.int64)
        trees = np.arange(len(self.leaves))[None, :]
        rows = np.arange(len(matrix))[:, None]
        node = np.zeros((len(matrix), len(self.leaves)), np.int64)
        for _ in range(DEPTH):
            node = 2 * node + 1 + above[rows, trees, node]
        corrections = self.leaves[trees, node - NODES].sum(axis=1)
        return np.asarray(self.linear * matrix[:, LINEAR_COLUMN] + corrections)


@cache
def ranker() -> Ranker:
    """The one that is shipped."""
    return ranker_of(json.loads(FILE.read_text()))


def ranker_of(held: Mapping[str, Any]) -> Ranker:
    """The ranker that a file holds. Raises ValueError when it was fitted for other features."""
    if tuple(held["names"]) != NAMES:
        raise ValueError(f"{FILE.name} was fitted for other features: run benchmarks/fit_ranker.py.")
    trees = held["trees"]
    return Ranker(
        float(held["linear"]),
        np.array([tree["features"] for tree in trees], np.int64),
        np.array([tree["thresholds"] for tree in trees], float),
        np.array([tree["leaves"] for tree in trees], float),
        float(held["half_gap"]),
    )
