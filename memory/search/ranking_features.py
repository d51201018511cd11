"""What the learned ranker looks at: one row of numbers for each candidate, many of them relative to the other
candidates of the same query, so that they mean the same in a store of short remarks and in one of long answers."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memory.search.scoring import (
    RECIPE,
    SAID_BY_AGENT,
    Candidates,
    Features,
    Query,
    Recipe,
    Values,
    rank,
)

Matrix = NDArray[np.float64]

NAMES = (
    "cosine", "passage", "second", "close", "close_behind", "close_apart", "close_place", "lexical", "lexical_behind",
    "own", "own_behind", "name", "length", "words", "loop", "loop_behind", "time", "agent", "standing",
    "asks", "before", "after", "linear", "linear_behind", "asks_agent", "wants_many",
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
"""A question about what the agent said."""
WANTS_MANY = re.compile(
    r"\bin (?:the )?order\b|\border in which\b|\bsummar|\boverview\b|\bthroughout\b|\bacross\b|\btimeline\b"
    r"|\bhow many\b",
    re.I,
)
"""A question that wants many pieces."""
FAR = 12.0
"""Nothing of the linear score counts as further behind the best."""


def query_of(text: str, lexemes: Sequence[str]) -> Query:
    """A query with what its words want."""
    return Query(lexemes, bool(ASKS_TIME.search(text)), bool(ASKS_AGENT.search(text)), bool(WANTS_MANY.search(text)))


def ranking_features(query: Query, rows: Candidates, f: Features, recipe: Recipe = RECIPE) -> Matrix:
    """A column for each of NAMES, a row for each candidate; there must be at least one."""
    passage = np.where(np.isnan(rows.passage), f.cosine, rows.passage)
    second = np.where(np.isnan(rows.second), passage, rows.second)
    close = f.closeness
    place = np.empty(len(close))
    place[np.argsort(-close, kind="stable")] = np.arange(len(close))
    before, after = _beside(rows, close)
    linear = rank(f, recipe)
    return np.column_stack(
        [
            f.cosine,
            passage,
            second,
            close,
            close - close.max(),
            (close - close.mean()) / (close.std() + 1e-6),
            np.log1p(place),
            f.lexical,
            f.lexical - f.lexical.max(),
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
            np.maximum(linear - linear.max(), -FAR),
            np.full(len(close), float(query.asks_agent)),
            np.full(len(close), float(query.wants_many)),
        ]
    )


def _beside(rows: Candidates, close: Values) -> tuple[Values, Values]:
    """How close the candidate before and after each in its loop is to the query; without one, as close as itself."""
    order = np.lexsort((rows.position, rows.loop))
    earlier, later = order[:-1], order[1:]
    joined = (rows.loop[earlier] == rows.loop[later]) & (rows.loop[earlier] >= 0)
    before, after = close.copy(), close.copy()
    before[later[joined]] = close[earlier[joined]]
    after[earlier[joined]] = close[later[joined]]
    return before, after
