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
SIGNS = ("constant", "behind", "place", "lead_of_ten", "lead", "gate", "wants_many", "close", "behind_by_place")
"""What the chance that a candidate answers follows from (memory.search.reach)."""

Bits = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Ranker:
    """Trees of depth DEPTH: node n goes on to 2n + 1, or to 2n + 2 where its condition holds.

    A condition is that a feature is above a threshold; `features` and `thresholds` have each condition once, however
    many trees ask it. `nodes` has a row for each of the NODES with the place of its condition in each tree, `leaves` a
    row of LEAVES for each tree; they correct `linear` times the linear score.

    `chance` has a weight for each of SIGNS: the log-odds that a candidate answers. `recall_weight` says
    what finding all of an answer is worth beside showing nothing else. Beyond what is worth reading a candidate whose
    score is `half_gap` less is half as relevant.
    """

    linear: float
    features: Places
    thresholds: Values
    nodes: Places
    leaves: Values
    half_gap: float
    chance: Values
    recall_weight: float

    def scores(self, matrix: Matrix) -> Values:
        """How well each row of `matrix` answers, against the others of the same query."""
        holds = (matrix.T[self.features] > self.thresholds[:, None]).view(np.uint8)
        # All trees of all rows at once, by numbers of a byte: the three bits of a leaf are what its path answers.
        n0, n1, n2, n3, n4, n5, n6 = holds[self.nodes]
        low = _either(n0, _either(n2, n6, n5), _either(n1, n4, n3))
        leaf = n0 << 2 | _either(n0, n2, n1) << 1 | low
        first = np.arange(len(self.leaves), dtype=np.intp) * LEAVES
        return np.asarray(self.linear * matrix[:, LINEAR_COLUMN] + self.leaves.take(leaf.T + first).sum(axis=1))


def _either(condition: Bits, yes: Bits, no: Bits) -> Bits:
    """`yes` where the condition holds, else `no`: bits, 0 or 1."""
    return no ^ (condition & (yes ^ no))


@cache
def ranker() -> Ranker:
    """The one that is shipped."""
    return ranker_of(json.loads(FILE.read_text()))


def ranker_of(held: Mapping[str, Any]) -> Ranker:
    """The ranker that a file holds. Raises ValueError when it was fitted for other features."""
    if tuple(held["names"]) != NAMES or tuple(held["chance"]) != SIGNS:
        raise ValueError(f"{FILE.name} was fitted for other features: run benchmarks/fit_ranker.py.")
    trees = held["trees"]
    asked = [list(zip(tree["features"], tree["thresholds"], strict=True)) for tree in trees]
    conditions = sorted({condition for tree in asked for condition in tree})
    place = {condition: number for number, condition in enumerate(conditions)}
    return Ranker(
        float(held["linear"]),
        np.array([feature for feature, _ in conditions], np.int64),
        np.array([threshold for _, threshold in conditions], float),
        np.array([[place[tree[node]] for tree in asked] for node in range(NODES)], np.int64),
        np.array([tree["leaves"] for tree in trees], float),
        float(held["half_gap"]),
        np.array(list(held["chance"].values()), float),
        float(held["recall_weight"]),
    )
