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
from memory.search.ranking_features import NAMES, Matrix
from nousweb.lib.boosted_trees import BoostedTrees, trees_unpacked

FILE = Path(__file__).with_name("ranker.json")
LINEAR_COLUMN = NAMES.index("linear")
SIGNS = ("constant", "behind", "place", "lead_of_ten", "lead", "gate", "wants_many", "close", "behind_by_place")
"""What the chance that a candidate answers follows from (memory.search.relevance_cutoff)."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """`trees` correct `linear` times the linear score.

    `chance` has a weight for each of SIGNS: the log-odds that a candidate answers. `recall_weight` says
    what finding all of an answer is worth beside showing nothing else. Beyond what is worth reading a candidate whose
    score is `half_gap` less is half as relevant.
    """

    linear: float
    trees: BoostedTrees
    half_gap: float
    chance: Values
    recall_weight: float

    def scores(self, matrix: Matrix) -> Values:
        """How well each row of `matrix` answers, against the others of the same query."""
        return np.asarray(self.linear * matrix[:, LINEAR_COLUMN] + self.trees.sums(matrix))


@cache
def ranker() -> Ranker:
    """The one that is shipped."""
    return ranker_of(json.loads(FILE.read_text()))


def ranker_of(held: Mapping[str, Any]) -> Ranker:
    """The ranker that a file holds. Raises ValueError when it was fitted for other features."""
    if tuple(held["names"]) != NAMES or tuple(held["chance"]) != SIGNS:
        raise ValueError(f"{FILE.name} was fitted for other features: run benchmarks/fit_ranker.py.")
    return Ranker(
        float(held["linear"]),
        BoostedTrees.of(trees_unpacked(held["trees"])),
        float(held["half_gap"]),
        np.array(list(held["chance"].values()), float),
        float(held["recall_weight"]),
    )
