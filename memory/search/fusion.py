"""Hybrid relevance: dense and lexical evidence about a bounded set of candidates, fused into one absolute score.

Pure functions over plain rows (no database, no model): SQL delivers candidates and counts, this module computes their
ranking features and relevance. docs/search.md explains how the constants were fitted.

Sources of the formulas:

- term saturation tf(k1+1)/(tf+k1(1-b+b·len/mean)) and the idf log(1+(N-df+.5)/(df+.5)): BM25, Robertson and Zaragoza,
  "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; the +1 inside the log as in Lucene
- fusing scores instead of ranks: Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", 2023
- weights by a listwise softmax loss: Cao et al., "Learning to Rank: From Pairwise to Listwise Approach", 2007
- answerability is a logistic regression (Platt, 1999); its sqrt(2 ln N) corrects for taking the best of N items
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memory.embedding.protocol import Vectors
from memory.search.request import SearchRequest

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]
Places = NDArray[np.int64]

SAID_BY_PERSON, SAID_BY_AGENT = 1, 2
RELEVANT = 0.25
"""The relevance at which a candidate is relevant, unless the embedding model has a threshold of its own."""


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """Every constant of the fusion, fitted for all-MiniLM-L6-v2; cosines of other models are mapped to its scale."""

    # Lexical evidence.
    k1: float = 1.2  # BM25's usual value; 0.3 to 2.0 move recall@10 by less than .01.
    b: float = 0.4  # Memories are short: normalise length less than the usual .75.
    long_words: float = 100.0  # In a text with this many words more, a word occurs by chance: it counts half.
    prior_items: float = 100.0  # Pretend 100 more items without the term: the idf of 5 items is noise.
    max_terms: int = 32  # A pasted log is no query: keep the rarest terms.
    # (distance, share): a term in the item just before counts in full, for an answer follows its question.
    window: tuple[tuple[int, float], ...] = ((-1, 1.0), (1, 0.7), (-2, 0.6), (2, 0.4))
    # Rank: linear.
    w_cosine: float = 3.4
    w_lexical: float = 11.5
    w_name: float = 2.1  # The query names the speaker or the subject.
    w_length: float = 1.5  # A longer item says more; chit-chat ("Thanks!") says nothing.
    length_cap: float = 25.0  # No bonus beyond that many words.
    w_loop: float = 6.8  # The conversation around it is about the topic,
    loop_top: int = 3  # measured by its three closest items.
    w_time: float = 2.2  # The query asks when, the item says when.
    w_agent: float = -2.5  # The agent's own words count less than the words of others,
    w_standing: float = 0.7  # and standing instructions and preferences count more.
    # Answerability: does the collection contain anything about the query?
    g_cosine: float = 15.2
    g_lexical: float = 10.1
    g_size: float = -2.5  # The best of N unrelated items grows like sqrt(2 ln N), the maximum of N normal draws.
    g_bias: float = -3.1
    unrelated: float = 0.3  # The best cosine of a query that the collection knows nothing about: the bar of each item.
    # Without a vector the cosine is guessed from the coverage of the query's words.
    blind_cosine: float = 0.1
    blind_coverage: float = 0.5


FUSION_WEIGHTS = FusionWeights()


@dataclass(frozen=True, slots=True)
class Query:
    """A query as PostgreSQL sees it: its distinct `lexemes`, of a long query only the rarest.

    The flags are read off its words: it asks for a time, for words of the agent itself, for many items, for the
    beginning of something, or for yes or no.
    """

    lexemes: Sequence[str]
    asks_time: bool = False
    asks_agent: bool = False
    wants_many: bool = False
    asks_early: bool = False
    yes_or_no: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """The fetched items, hits of either search and neighbours of hits, as columns with one row per item.

    `cosine`: NaN without a vector.
    `contains`, `named`: matrices with a column for each lexeme of the query: the item contains the lexeme; the lexeme
    is a name of its speaker or subject. `nameless` items have neither speaker nor subject.
    `length`: number of all words.
    `loop`: a number for each loop, -1 for none. `position`: order within the loop; around a `hit`, up to two items on
    each side are candidates too, so neighbours there are adjacent.
    `passage`, `second`: cosines of the two passages of a long text that are nearest to the query, else NaN.
    `moved`: for a message, products with its moved vector (memory.search.search), NaN without one; else empty.
    `speaker`: SAID_BY_PERSON, SAID_BY_AGENT or 0. `standing`: 2 for an instruction, 1 for a preference, else 0.
    `asks`: the text ends with a question mark.
    """

    cosine: Values
    contains: Flags
    named: Flags
    nameless: Flags
    length: Values
    loop: Places
    position: Places
    hit: Flags
    says_time: Flags
    passage: Values
    second: Values
    speaker: Places
    standing: Places
    asks: Flags
    moved: Values = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.cosine)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts over the searched collection; `df` is the number of items that contain a lexeme."""

    items: int
    mean_length: float
    df: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ranking:
    """`order`: indexes of the candidates, best first. In input order, both in [0, 1]: `relevance`, the absolute score,
    and `lexical`, the share of the query's idf that the candidate matches."""

    order: Places
    relevance: Values
    lexical: Values


@dataclass(frozen=True, slots=True)
class Features:
    """Features for ranking and answerability, one value per candidate, in input order.

    `closeness` is the mean of the cosines of the whole text and its nearest passage, `closest` the larger of the two.
    `own` is the lexical score of the item itself, `lexical` includes its neighbours. `recited` is 1 for words of the
    agent itself, unless the query asks for them. `mass` is the summed rarity of the query's words. `by_loop` are the
    indexes of the candidates, sorted by loop and position.
    """

    cosine: Values
    closeness: Values
    closest: Values
    lexical: Values
    own: Values
    coverage: Values
    name: Values
    length: Values
    loop: Values
    time: Values
    recited: Values
    standing: Values
    mass: float
    by_loop: Places


def rarity(df: float, items: int, weights: FusionWeights = FUSION_WEIGHTS) -> float:
    """BM25's idf divided by its largest value: 1 for a term nobody used, towards 0 for one everybody uses."""
    n = items + weights.prior_items
    return math.log(1 + (n - df + 0.5) / (df + 0.5)) / math.log(2 * n + 2)


def rarest_lexemes(lexemes: Iterable[str], stats: Statistics, weights: FusionWeights = FUSION_WEIGHTS) -> list[str]:
    """The `weights.max_terms` rarest lexemes, the rarest first."""
    return sorted(lexemes, key=lambda lexeme: (stats.df.get(lexeme, 0), lexeme))[: weights.max_terms]


def features(query: Query, rows: Candidates, stats: Statistics, weights: FusionWeights = FUSION_WEIGHTS) -> Features:
    """Compute the features of all candidates."""
    df = (min(stats.df.get(lexeme, 0), stats.items) for lexeme in query.lexemes)
    idf = np.array([rarity(n, stats.items, weights) for n in df])
    mass = float(idf.sum())
    coverage = rows.contains @ idf / mass if mass else np.zeros(len(rows))
    cosine = fill_missing(rows.cosine, weights.blind_cosine + weights.blind_coverage * coverage)
    relative = rows.length / max(stats.mean_length, 1.0)
    # Repeated words in an item changed no measured result, so only presence counts.
    saturation = 1 + weights.k1 * (1 - weights.b + weights.b * relative)
    long = 1 + np.maximum(rows.length - weights.long_words, 0) / weights.long_words
    own = rows.contains / (saturation * long)[:, None]
    passage = fill_missing(rows.passage, cosine)
    closeness = (cosine + passage) / 2
    by_loop = np.lexsort((rows.position, rows.loop))
    return Features(
        cosine=cosine,
        closeness=closeness,
        closest=np.maximum(cosine, passage),
        lexical=_with_neighbours(rows, by_loop, own, weights) @ idf / math.sqrt(mass) if mass else np.zeros(len(rows)),
        own=own @ idf / math.sqrt(mass) if mass else np.zeros(len(rows)),
        coverage=coverage,
        name=_named(rows),
        length=np.log1p(np.minimum(rows.length, weights.length_cap)),
        loop=loop_closeness(rows, closeness, weights),
        time=(rows.says_time & query.asks_time).astype(float),
        recited=((rows.speaker == SAID_BY_AGENT) & (not query.asks_agent)).astype(float),
        standing=rows.standing.astype(float),
        mass=mass,
        by_loop=by_loop,
    )


def fill_missing(values: Values, defaults: Values) -> Values:
    """`values`, with NaN replaced by the value of `defaults` at the same index."""
    return np.where(np.isnan(values), defaults, values)


def _with_neighbours(rows: Candidates, order: Places, own: Values, weights: FusionWeights) -> Values:
    """Term weights per item; a term of a neighbour counts by the share of `weights.window`."""
    alone = own[order]
    together = alone.copy()
    joined = _joined(rows, order)
    for distance, share in weights.window:
        apart = abs(distance)
        # The earlier of each pair that lies so far apart with no gap between.
        linked = joined if apart == 1 else joined[:-1] & joined[1:]
        if distance < 0:
            here, there = together[apart:], alone[:-apart]
        else:
            here, there = together[:-apart], alone[apart:]
        np.maximum(here, (share * linked)[:, None] * there, out=here)
    in_input_order = np.empty_like(own)
    in_input_order[order] = together
    return in_input_order


def _joined(rows: Candidates, order: Places) -> Flags:
    """For each index of `order` but the last: whether the next item is the direct neighbour in the same loop."""
    loop, hit = rows.loop[order], rows.hit[order]
    same = (loop[:-1] == loop[1:]) & (loop[:-1] >= 0)
    # Two items on each side of a hit are fetched, so a pair is complete if a hit is in it or one place beside it.
    known = hit[:-1] | hit[1:]
    inner = same & known
    inner[1:] |= same[1:] & same[:-1] & hit[:-2]
    inner[:-1] |= same[:-1] & same[1:] & hit[2:]
    return inner


def loop_closeness(rows: Candidates, cosine: Values, weights: FusionWeights = FUSION_WEIGHTS) -> Values:
    """Mean of the `weights.loop_top` largest cosines in the loop of each candidate; its own cosine without a loop."""
    order = np.lexsort((-cosine, rows.loop))
    begins, group = loop_groups(rows, order)
    closest = np.arange(len(order)) - begins[group] < weights.loop_top
    counted = group[closest]
    sums = np.bincount(counted, weights=cosine[order][closest])
    closeness = np.empty(len(order))
    closeness[order] = (sums / np.bincount(counted))[group]
    return np.where(rows.loop < 0, cosine, closeness)


def loop_groups(rows: Candidates, order: Places) -> tuple[Places, Places]:
    """For an `order` that is sorted by loop: the index at which each loop begins, and for each index the number of its
    loop."""
    loop = rows.loop[order]
    first = np.ones(len(loop), bool)
    np.not_equal(loop[1:], loop[:-1], out=first[1:])
    return np.flatnonzero(first), np.cumsum(first) - 1


def _named(rows: Candidates) -> Values:
    """1 if the query names the item's speaker or subject, else 0. An item that has neither must contain the name."""
    known = rows.named.any(axis=0)
    if not known.any():
        return np.zeros(len(rows))
    mine = np.where(rows.nameless[:, None], rows.contains & known, rows.named)
    return mine.any(axis=1).astype(float)


def fused_scores(f: Features, weights: FusionWeights = FUSION_WEIGHTS) -> Values:
    """Linear score of each candidate, comparable among the candidates of one query only."""
    value: Values = (
        weights.w_cosine * f.closeness
        + weights.w_lexical * f.lexical
        + weights.w_name * f.name
        + weights.w_length * f.length
        + weights.w_loop * f.loop
        + weights.w_time * f.time
        + weights.w_agent * f.recited
        + weights.w_standing * f.standing
    )
    return value


def answerability_log_odds(
    f: Features, items: int, weights: FusionWeights = FUSION_WEIGHTS, tells: Flags | None = None
) -> float:
    """Log-odds that the collection of `items` items contains anything about the query, by the candidates in `tells`,
    all if it is None."""
    return (
        weights.g_cosine * float(f.closest[tells].max())
        + weights.g_lexical * float(f.lexical[tells].max())
        + weights.g_size * math.sqrt(2 * math.log(max(items, 1)))
        + weights.g_bias
    )


def relevance(behind: Values, log_odds: float, half_gap: float, cutoff: float | None) -> Values:
    """Relevance in [0, 1] of each candidate, by how far its score is `behind` the best.

    The best has the probability that the collection contains an answer (`log_odds`). At the distance `cutoff` it has
    fallen to RELEVANT; from there it halves with every `half_gap`. Without a cutoff, or if the probability is below
    RELEVANT, it halves from the best on.
    """
    chance = 1 / (1 + math.exp(-max(-60.0, min(60.0, log_odds))))
    if cutoff is None or chance < RELEVANT:
        return np.asarray(chance * np.exp2(-behind / half_gap))
    near = chance * (RELEVANT / chance) ** (behind / cutoff)
    return np.where(behind <= cutoff, near, RELEVANT * np.exp2((cutoff - behind) / half_gap))


def own_relevance(f: Features, weights: FusionWeights = FUSION_WEIGHTS) -> Values:
    """Relevance in [0, 1] that each candidate has by its own evidence, however far from the best it is.

    It is RELEVANT for the cosine `weights.unrelated` without any common word, and grows with the evidence as the
    answerability does.
    """
    bar = math.log(RELEVANT / (1 - RELEVANT))
    log_odds = weights.g_cosine * (f.closest - weights.unrelated) + weights.g_lexical * f.lexical + bar
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -60.0, 60.0))))


@dataclass(frozen=True, slots=True)
class Counts:
    """What is known of the collection before the search: `model` is the embedding model of its vectors, if any.

    `df` has the query's lexemes. `spellings` has, for a lexeme of a name in the query, the other names of the same
    subject, each as its lexemes: an item that holds all of one of these holds the lexeme. `unindexed` are
    the personas whose collection is too large to read every vector, and has no vector index of the model yet.
    """

    model: str
    items: int
    mean_words: float
    df: Mapping[str, int]
    spellings: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    unindexed: frozenset[str] = frozenset()

    @property
    def statistics(self) -> Statistics:
        """The counts as the scoring takes them."""
        return Statistics(self.items, self.mean_words, self.df)


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The data of a query, for another search in the same collection."""

    request: SearchRequest
    counts: Counts
    lexemes: Sequence[str]
    vector: Vectors | None
