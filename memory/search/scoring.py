"""Hybrid relevance: dense and lexical evidence about a bounded set of candidates, fused into one absolute score.

Pure functions over plain rows (no database, no model): SQL delivers candidates and counts, this module ranks them
and says how far each may be believed. The same input always gives the same output: ties go by cosine, then by
input order. docs/search.md tells how the constants were found.

Sources of the formulas:

- term saturation tf(k1+1)/(tf+k1(1-b+b·len/mean)) and the idf log(1+(N-df+.5)/(df+.5)): BM25, Robertson and Zaragoza,
  "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; the +1 inside the log as in Lucene
- fusing scores instead of ranks: Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", 2023
- weights by a listwise softmax loss: Cao et al., "Learning to Rank: From Pairwise to Listwise Approach", 2007
- the gate is a logistic regression (Platt, 1999), whose sqrt(2 ln N) corrects for taking the best of N items
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Every constant of the fusion, fitted for all-MiniLM-L6-v2; cosines of other models are mapped to its scale."""

    # Lexical evidence.
    k1: float = 1.2  # BM25's usual value; 0.3 to 2.0 move recall@10 by less than .01.
    b: float = 0.4  # Memories are short: normalise length less than the usual .75.
    prior_items: float = 100.0  # Pretend 100 more items without the term: the idf of 5 items is noise.
    max_terms: int = 32  # A pasted log is no query: keep the rarest terms.
    # (distance, share): a term in the item just before counts in full, for an answer follows its question.
    window: tuple[tuple[int, float], ...] = ((-1, 1.0), (1, 0.7), (-2, 0.6), (2, 0.4))
    # Rank: linear.
    w_cosine: float = 3.4
    w_lexical: float = 11.5
    w_name: float = 2.1  # The query names who said it, or whom it is about.
    w_length: float = 1.5  # A longer item says more; chit-chat ("Thanks!") says nothing.
    length_cap: float = 25.0  # No bonus beyond that many words.
    w_loop: float = 6.8  # The conversation around it is about the topic,
    loop_top: int = 3  # measured by its three closest items.
    w_time: float = 2.2  # The query asks when, the item says when.
    # Gate: is there anything about this at all?
    g_cosine: float = 15.2
    g_lexical: float = 10.1
    g_size: float = -2.5  # The best of N unrelated items grows like sqrt(2 ln N), the maximum of N normal draws.
    g_bias: float = -3.1
    # Score.
    half_gap: float = 3.5  # A candidate that ranks this far behind the best one is worth half its score.
    # Without a vector the cosine is guessed from the coverage of the query's words.
    blind_cosine: float = 0.1
    blind_coverage: float = 0.5


RECIPE = Recipe()


@dataclass(frozen=True, slots=True)
class Query:
    """A query as PostgreSQL sees it: its `lexemes` without repeats."""

    lexemes: Sequence[str]
    asks_time: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """One fetched item: a hit of either search, or a neighbour of one.

    `tf` counts the query's lexemes in the item, `length` all its words. Items of one `loop` whose `position`s differ
    by 1 are neighbours. `names` are lexemes of the speaker or the subject.
    """

    id: Hashable
    cosine: float | None
    tf: Mapping[str, int]
    length: int
    loop: Hashable | None = None
    position: int | None = None
    names: frozenset[str] = frozenset()
    says_time: bool = False


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts over the searched collection; `df` says how many items hold a lexeme."""

    items: int
    mean_length: float
    df: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scored:
    """`score` is the absolute relevance and `lexical` the share of the query's idf that the item matches: [0, 1]."""

    id: Hashable
    score: float
    lexical: float


@dataclass(frozen=True, slots=True)
class Features:
    """What rank and gate look at: a value for each candidate, in input order."""

    cosine: Values
    lexical: Values
    coverage: Values
    name: Values
    length: Values
    loop: Values
    time: Values


def rarity(df: float, items: int, recipe: Recipe = RECIPE) -> float:
    """BM25's idf divided by its largest value: 1 for a term nobody used, towards 0 for one everybody uses."""
    n = items + recipe.prior_items
    return math.log(1 + (n - df + 0.5) / (df + 0.5)) / math.log(2 * n + 2)


def features(query: Query, rows: Sequence[Candidate], stats: Statistics, recipe: Recipe = RECIPE) -> Features:
    """The evidence for each of `rows`."""
    count = len(rows)
    weight = {t: rarity(min(stats.df.get(t, 0), stats.items), stats.items, recipe) for t in set(query.lexemes)}
    terms = sorted(weight, key=lambda t: (-weight[t], t))[: recipe.max_terms]
    idf = np.array([weight[t] for t in terms])
    mass = float(idf.sum())
    length = np.fromiter((row.length for row in rows), float, count)
    tf = _counts(rows, terms)
    coverage = (tf > 0) @ idf / mass if mass else np.zeros(count)
    guess = recipe.blind_cosine + recipe.blind_coverage * coverage
    cosine = np.array([guess[i] if row.cosine is None else row.cosine for i, row in enumerate(rows)], float)
    relative = (length / max(stats.mean_length, 1.0))[:, None]
    own = tf / (tf + recipe.k1 * (1 - recipe.b + recipe.b * relative))
    return Features(
        cosine=cosine,
        lexical=_with_neighbours(rows, own, recipe) @ idf / math.sqrt(mass) if mass else np.zeros(count),
        coverage=coverage,
        name=_named(query, rows),
        length=np.log1p(np.minimum(length, recipe.length_cap)),
        loop=_around(rows, cosine, recipe),
        time=np.array([query.asks_time and row.says_time for row in rows], float),
    )


def _counts(rows: Sequence[Candidate], terms: Sequence[str]) -> Values:
    column = {term: place for place, term in enumerate(terms)}
    counts = np.zeros((len(rows), len(terms)))
    cells = [(i, column[t], n) for i, row in enumerate(rows) for t, n in row.tf.items() if t in column]
    if cells:
        at_row, at_term, times = np.array(cells).T
        counts[at_row, at_term] = times
    return counts


def _with_neighbours(rows: Sequence[Candidate], own: Values, recipe: Recipe) -> Values:
    """A term counts where it stands or, for a share, where a neighbour says it."""
    places = {(r.loop, r.position): i for i, r in enumerate(rows) if r.loop is not None and r.position is not None}
    said = own.copy()
    for distance, share in recipe.window:
        moved = ((i, places.get((loop, at + distance))) for (loop, at), i in places.items() if at is not None)
        pairs = [(i, j) for i, j in moved if j is not None]
        if pairs:
            here, there = np.array(pairs).T
            said[here] = np.maximum(said[here], share * own[there])
    return said


def _around(rows: Sequence[Candidate], cosine: Values, recipe: Recipe) -> Values:
    """How close the loop of each candidate comes to the query; its own cosine where it has no loop."""
    loops: dict[Hashable, list[float]] = {}
    for row, value in zip(rows, cosine, strict=True):
        if row.loop is not None:
            loops.setdefault(row.loop, []).append(float(value))
    warmth = {}
    for loop, values in loops.items():
        closest = sorted(values)[-recipe.loop_top :]
        warmth[loop] = sum(closest) / len(closest)
    return np.array(
        [value if row.loop is None else warmth[row.loop] for row, value in zip(rows, cosine, strict=True)], float
    )


def _named(query: Query, rows: Sequence[Candidate]) -> Values:
    known = frozenset().union(*(row.names for row in rows)) if rows else frozenset()
    asked = known.intersection(query.lexemes)
    return np.array([bool(asked & (row.names or row.tf.keys())) for row in rows], float)


def rank(f: Features, recipe: Recipe = RECIPE) -> Values:
    """How well each candidate answers, against the other candidates of the same query."""
    value: Values = (
        recipe.w_cosine * f.cosine
        + recipe.w_lexical * f.lexical
        + recipe.w_name * f.name
        + recipe.w_length * f.length
        + recipe.w_loop * f.loop
        + recipe.w_time * f.time
    )
    return value


def gate(f: Features, items: int, recipe: Recipe = RECIPE) -> float:
    """Log-odds that the collection holds anything about the query."""
    return (
        recipe.g_cosine * float(f.cosine.max())
        + recipe.g_lexical * float(f.lexical.max())
        + recipe.g_size * math.sqrt(2 * math.log(max(items, 1)))
        + recipe.g_bias
    )


def relevance(ranks: Values, log_odds: float, recipe: Recipe = RECIPE) -> Values:
    """Chance that the collection holds an answer, halved for every `half_gap` behind the best candidate."""
    chance = 1 / (1 + math.exp(-max(-60.0, min(60.0, log_odds))))
    faded: Values = chance * np.exp2((ranks - ranks.max()) / recipe.half_gap)
    return faded


def score(query: Query, rows: Sequence[Candidate], stats: Statistics, recipe: Recipe = RECIPE) -> list[Scored]:
    """All candidates, best first."""
    if not rows:
        return []
    f = features(query, rows, stats, recipe)
    ranks = rank(f, recipe)
    value = relevance(ranks, gate(f, stats.items, recipe), recipe)
    order = np.lexsort((np.arange(len(rows)), -f.cosine, -ranks))
    return [Scored(rows[i].id, float(value[i]), min(1.0, float(f.coverage[i]))) for i in order]
