"""Small regression trees that were fitted elsewhere, read from numbers: the same output on every machine."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEPTH = 3
NODES, LEAVES = 2**DEPTH - 1, 2**DEPTH

ROWS = 1_000
"""Read at once: each takes some bytes for each of the trees."""

PACKED = np.dtype([("features", "u1", NODES), ("thresholds", "<f2", NODES), ("leaves", "<f2", LEAVES)])
"""A tree in 37 bytes."""
Bits = NDArray[np.uint8]


def trees_unpacked(packed: str) -> list[dict[str, list[float]]]:
    """The trees that a file holds as PACKED in base 64, for BoostedTrees."""
    rows = np.frombuffer(b64decode(packed), PACKED)
    return [{name: row[name].tolist() for name in PACKED.names or ()} for row in rows]


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Trees of depth DEPTH: node n continues at 2n + 1, or at 2n + 2 if its condition holds.

    A condition is that a feature is above a threshold; `features` and `thresholds` have each condition once, however
    many trees use it. `nodes` has a row for each of the NODES with the position of its condition in each tree: the
    first trees of all pairs, then the second. `pairs` has the sums of the two trees of a pair: a row for each pair, a
    column for each leaf of the first with each of the second.
    """

    features: NDArray[np.int64]
    thresholds: NDArray[np.float64]
    nodes: NDArray[np.int64]
    pairs: NDArray[np.float64]

    @classmethod
    def of(cls, trees: Sequence[Mapping[str, Any]]) -> "BoostedTrees":
        """The trees that a file holds, each with NODES `features` and `thresholds` and LEAVES `leaves`."""
        even = [*trees, *([{**trees[0], "leaves": [0.0] * LEAVES}] if len(trees) % 2 else [])]
        asked = [list(zip(tree["features"], tree["thresholds"], strict=True)) for tree in even]
        conditions = sorted({condition for tree in asked for condition in tree})
        place = {condition: number for number, condition in enumerate(conditions)}
        first, second = np.array([tree["leaves"] for tree in even], float).reshape(2, -1, LEAVES)
        return cls(
            np.array([feature for feature, _ in conditions], np.int64),
            np.array([threshold for _, threshold in conditions], float),
            np.array([[place[tree[node]] for tree in asked] for node in range(NODES)], np.int64),
            (first[:, :, None] + second[:, None, :]).reshape(-1, LEAVES * LEAVES),
        )

    def sums(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each row of `matrix`, which has a column per feature, the sum of the trees' values."""
        if len(matrix) > ROWS:
            return np.concatenate([self.sums(matrix[begin : begin + ROWS]) for begin in range(0, len(matrix), ROWS)])
        holds = (matrix.T[self.features] > self.thresholds[:, None]).view(np.uint8)
        # All trees of all rows at once, by numbers of a byte: the three bits of a leaf are what its path answers.
        n0, n1, n2, n3, n4, n5, n6 = holds.take(self.nodes, axis=0)
        low = _either(n0, _either(n2, n6, n5), _either(n1, n4, n3))
        # Doubled by addition, of many bytes at once: numpy shifts one after the other.
        high = n0 + n0 | _either(n0, n2, n1)
        leaf = high + high | low
        # Half as many numbers are looked up and added when two trees are asked together.
        first, second = leaf.reshape(2, len(self.pairs), -1)
        begins = np.arange(len(self.pairs), dtype=np.intp)[:, None] * self.pairs.shape[1]
        both = second + first * np.uint8(LEAVES)
        return np.asarray(self.pairs.take(both + begins).sum(axis=0))


def _either(condition: Bits, yes: Bits, no: Bits) -> Bits:
    """`yes` where the condition holds, else `no`: bits, 0 or 1."""
    return no ^ (condition & (yes ^ no))
