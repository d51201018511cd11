"""Features of the learned ranker: one row of numbers per candidate.

Many are relative to the other candidates of the same query, so that they mean the same in a store of short remarks and
in one of long answers.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.search.fusion import (
    FUSION_WEIGHTS,
    SAID_BY_AGENT,
    SAID_BY_PERSON,
    Candidates,
    Features,
    FusionWeights,
    Places,
    Query,
    Statistics,
    Values,
    fill_missing,
    fused_scores,
    loop_groups,
)
from nousweb.lib.boosted_trees import BoostedTrees, trees_unpacked

Matrix = NDArray[np.float64]

FEATURE_NAMES = (
    "cosine", "passage", "second", "close", "close_behind", "close_apart", "close_place", "lexical", "lexical_behind",
    "own", "own_behind", "name", "length", "words", "loop", "loop_behind", "time", "agent", "standing",
    "asks", "before", "after", "linear", "linear_behind", "asks_agent", "wants_many",
    "lexical_place", "linear_place", "own_place", "passage_place", "loop_place", "coverage", "coverage_behind",
    "lexemes_held", "lexical_after", "lexemes", "mass", "closest", "close_spread", "most_lexical", "items", "early",
    "early_asked", "relative_words", "person", "says_time", "yes_or_no", "passage_ahead", "linear_apart",
    "closest_behind", "in_loop", "in_loop_many",
)  # fmt: skip

ASKS_TIME = re.compile(r"\bwhen\b|\bhow (?:long|recently)\b|\b(?:what|which) (?:date|day|month|year|time)\b", re.I)
ASKS_AGENT = re.compile(
    r"\b(?:did|have|had|what|how|which|were|was)\b.{0,60}\byou\b.{0,30}\b(?:say|said|suggest|recommend|advi[sc]e|tell|told"
    r"|mention|explain|describe|propose|list|walk|provide|give|gave|outline|help|show|answer|respond|remind)"
    r"|\byour (?:\w+ )?(?:recommend|suggest|advice|answer|explanation|response)"
    r"|\byou (?:recommend|suggest|said|told|mention|explain|gave|advi[sc]ed|provided|described|outlined|listed"
    r"|proposed)",
    re.I,
)
"""A query that asks for words of the agent."""
WANTS_MANY = re.compile(
    r"\bin (?:the )?order\b|\border in which\b|\bsummar|\boverview\b|\bthroughout\b|\bacross\b|\btimeline\b"
    r"|\bhow many\b",
    re.I,
)
"""A query that needs many items."""
ASKS_EARLY = re.compile(r"\b(?:first|initial\w*|begin\w*|start(?:ed|ing)?|original\w*|earl\w+|before)\b", re.I)
"""A query about the beginning of something."""
YES_OR_NO = re.compile(r"(?:have|did|do|am|is|are|has|was|were|can|does)\b", re.I)
MAX_BEHIND = 12.0
"""Maximum distance of the linear score from the best; larger ones are clipped."""


def query_of(text: str, lexemes: Sequence[str]) -> Query:
    """Build a query from its text: its lexemes and the flags that its words set."""
    return Query(
        lexemes,
        bool(ASKS_TIME.search(text)),
        bool(ASKS_AGENT.search(text)),
        bool(WANTS_MANY.search(text)),
        bool(ASKS_EARLY.search(text)),
        bool(YES_OR_NO.match(text)),
    )


def ranking_features(
    query: Query, rows: Candidates, f: Features, stats: Statistics, weights: FusionWeights = FUSION_WEIGHTS
) -> Matrix:
    """Feature matrix: a column per name in FEATURE_NAMES, a row per candidate, of which there must be at least one."""
    passage = fill_missing(rows.passage, f.cosine)
    second = fill_missing(rows.second, passage)
    close, closest = f.closeness, f.closeness.max()
    close_apart, spread = _apart(close)
    most_lexical = f.lexical.max()
    earlier, later = _neighbours(rows, f.by_loop)
    before, after, lexical_after = close.copy(), close.copy(), np.zeros(len(close))
    before[later], after[earlier], lexical_after[earlier] = close[earlier], close[later], f.own[later]
    linear = fused_scores(f, weights)
    logs = np.log1p(np.arange(len(close)))
    loop_place, in_loop = _loops(rows, f.by_loop, linear, logs)
    early = _early(rows)
    columns = (
        f.cosine,
        passage,
        second,
        close,
        close - closest,
        close_apart,
        _place(close, logs),
        f.lexical,
        f.lexical - most_lexical,
        f.own,
        f.own - f.own.max(),
        f.name,
        f.length,
        np.log1p(rows.length),
        f.loop,
        f.loop - f.loop.max(),
        f.time,
        rows.speaker == SAID_BY_AGENT,
        rows.standing,
        rows.asks,
        before,
        after,
        linear,
        np.maximum(linear - linear.max(), -MAX_BEHIND),
        query.asks_agent,
        query.wants_many,
        _place(f.lexical, logs),
        _place(linear, logs),
        _place(f.own, logs),
        _place(passage, logs),
        loop_place,
        f.coverage,
        f.coverage - f.coverage.max(),
        rows.contains.sum(axis=1),
        lexical_after,
        len(query.lexemes),
        f.mass,
        closest,
        spread,
        most_lexical,
        math.sqrt(2 * math.log(max(stats.items, 1))),
        early,
        early * query.asks_early,
        np.log((rows.length + 1) / (stats.mean_length + 1)),
        rows.speaker == SAID_BY_PERSON,
        rows.says_time,
        query.yes_or_no,
        passage - f.cosine,
        _apart(linear)[0],
        f.closest - f.closest.max(),
        in_loop,
        in_loop * query.wants_many,
    )
    # Each column in one piece of memory: that is how they are made, and how the trees read them.
    matrix = np.empty((len(columns), len(close)))
    for place, column in enumerate(columns):
        matrix[place] = column
    return matrix.T


def _place(values: Values, logs: Values) -> Values:
    """For each value the logarithm of its rank, the largest first; `logs` are the logarithms of at least as many
    ranks."""
    place = np.empty(len(values))
    place[np.argsort(-values, kind="stable")] = logs[: len(values)]
    return place


def _loops(rows: Candidates, order: Places, linear: Values, logs: Values) -> tuple[Values, Values]:
    """Two columns about the loop of each candidate: the logarithm of its rank among the loops by its best candidate,
    and the position of the candidate in it: 0 is the first, 1 the last, 0.5 without a loop.

    `order` are the indexes of the candidates, sorted by loop and position.
    """
    begins, group = loop_groups(rows, order)
    size = np.diff(begins, append=len(order))
    best = np.maximum.reduceat(linear[order], begins)
    position = rows.position[order].astype(float)
    first, last = position[begins], position[begins + size - 1]
    span = (last - first)[group]
    inside = (rows.loop[order] >= 0) & (span > 0)
    columns = np.empty((2, len(order)))
    columns[0, order] = _place(best, logs)[group]
    columns[1, order] = np.where(inside, (position - first[group]) / np.where(inside, span, 1.0), 0.5)
    columns[0, rows.loop < 0] = 0.0
    return columns[0], columns[1]


def _early(rows: Candidates) -> Values:
    """Rank by position among the candidates in loops, from 1 for the first to 0 for the last; 0.5 without a loop."""
    early = np.full(len(rows), 0.5)
    inside = np.flatnonzero(rows.loop >= 0)
    if len(inside) > 1:
        early[inside[np.argsort(rows.position[inside], kind="stable")]] = np.linspace(1.0, 0.0, len(inside))
    return early


def _neighbours(rows: Candidates, order: Places) -> tuple[Places, Places]:
    """Indexes of the candidates that have a successor in their loop, and indexes of those successors."""
    earlier, later = order[:-1], order[1:]
    joined = (rows.loop[earlier] == rows.loop[later]) & (rows.loop[earlier] >= 0)
    return earlier[joined], later[joined]


def _apart(values: Values) -> tuple[Values, float]:
    """Standard scores of the values, and their standard deviation."""
    from_mean = values - np.add.reduce(values) / len(values)
    spread = math.sqrt(np.add.reduce(from_mean * from_mean) / len(values))
    return from_mean / (spread + 1e-6), spread


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
"""Features of the probability that a candidate answers the query (memory.search.ranking)."""


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
