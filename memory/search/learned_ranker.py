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

from memory.search.fusion import Values
from memory.search.ranking_features import FEATURE_NAMES, Matrix
from nousweb.lib.boosted_trees import BoostedTrees, trees_unpacked

FILE = Path(__file__).with_name("ranker.json")
LINEAR_COLUMN = FEATURE_NAMES.index("linear")
CUTOFF_FEATURES = (
    "constant",
    "behind",
    "place",
    "lead_of_ten",
    "lead",
    "answerability",
    "wants_many",
    "close",
    "behind_by_place",
)
"""Features of the probability that a candidate answers the query (memory.search.relevance_cutoff)."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """The fitted model: `linear` times the linear score, plus the sum of `trees`.

    `chance` has a weight for each of CUTOFF_FEATURES; their sum is the log-odds that a candidate answers the query.
    `recall_weight` is the weight of recall relative to precision in the cutoff. Behind the cutoff, the relevance of a
    candidate halves with every `half_gap` of score.
    """

    linear: float
    trees: BoostedTrees
    half_gap: float
    chance: Values
    recall_weight: float

    def scores(self, matrix: Matrix) -> Values:
        """Score of each row of `matrix`, comparable among the candidates of one query only."""
        return np.asarray(self.linear * matrix[:, LINEAR_COLUMN] + self.trees.sums(matrix))


@cache
def ranker() -> Ranker:
    """Load the bundled ranker (cached)."""
    return build_ranker(json.loads(FILE.read_text()))


def build_ranker(stored: Mapping[str, Any]) -> Ranker:
    """Build a ranker from the content of its file. Raises ValueError if it was fitted for other features."""
    if tuple(stored["names"]) != FEATURE_NAMES or tuple(stored["chance"]) != CUTOFF_FEATURES:
        raise ValueError(f"{FILE.name} was fitted for other features: run benchmarks/fit_ranker.py.")
    return Ranker(
        float(stored["linear"]),
        BoostedTrees.of(trees_unpacked(stored["trees"])),
        float(stored["half_gap"]),
        np.array(list(stored["chance"].values()), float),
        float(stored["recall_weight"]),
    )
