"""Hybrid relevance: dense and lexical evidence about a bounded set of candidates, fused into one absolute score.

Pure functions over plain rows (no database, no model): SQL delivers candidates and counts, this module ranks them
and says how far each may be believed. docs/search.md tells how the constants were found.

Sources of the formulas:

- term saturation tf(k1+1)/(tf+k1(1-b+b·len/mean)) and the idf log(1+(N-df+.5)/(df+.5)): BM25, Robertson and Zaragoza,
  "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; the +1 inside the log as in Lucene
- fusing scores instead of ranks: Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", 2023
- weights by a listwise softmax loss: Cao et al., "Learning to Rank: From Pairwise to Listwise Approach", 2007
- the gate is a logistic regression (Platt, 1999), whose sqrt(2 ln N) corrects for taking the best of N items
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]
Places = NDArray[np.int64]

SAID_BY_PERSON, SAID_BY_AGENT = 1, 2
RELEVANT = 0.25
"""The relevance from which a candidate is worth reading, unless the embedding model has a threshold of its own."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Every constant of the fusion, fitted for all-MiniLM-L6-v2; cosines of other models are mapped to its scale."""

    # Lexical evidence.
    k1: float = 1.2  # BM25's usual value; 0.3 to 2.0 move recall@10 by less than .01.
    b: float = 0.4  # Memories are short: normalise length less than the usual .75.
    long_words: float = 100.0  # A text of so many words more says a word by chance: it counts half.
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
    w_agent: float = -2.5  # What the agent recited counts less than what it heard,
    w_standing: float = 0.7  # and what is to be kept to counts more.
    # Gate: is there anything about this at all?
    g_cosine: float = 15.2
    g_lexical: float = 10.1
    g_size: float = -2.5  # The best of N unrelated items grows like sqrt(2 ln N), the maximum of N normal draws.
    g_bias: float = -3.1
    # Without a vector the cosine is guessed from the coverage of the query's words.
    blind_cosine: float = 0.1
    blind_coverage: float = 0.5


RECIPE = Recipe()


@dataclass(frozen=True, slots=True)
class Query:
    """A query as PostgreSQL sees it: its `lexemes` without repeats, of a long one the rarest.

    The flags say what its words want: a time, what the agent itself has said, many pieces, how something began, yes or
    no.
    """

    lexemes: Sequence[str]
    asks_time: bool = False
    asks_agent: bool = False
    wants_many: bool = False
    asks_early: bool = False
    yes_or_no: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """The fetched items, hits of either search and neighbours of hits, as columns: one row an item.

    `cosine` is NaN without a vector. `held` and `named` have a column for each lexeme of the query: whether the item
    holds it, and whether its speaker or subject is called so; `nameless` items have neither. `length` counts all
    words. `loop` is a number for each conversation and -1 for none; items of one loop are in order of `position`, and
    next to each other there wherever a `hit` lies at most two places off, for hits bring their neighbours along.
    `passage` and `second` are cosines of the two passages of a long text that are nearest to the query, else NaN;
    `speaker` is SAID_BY_PERSON, SAID_BY_AGENT or 0, `standing` 2 for an instruction, 1 for a preference, else 0, and
    `asks` whether it ends as a question.
    """

    cosine: Values
    held: Flags
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

    def __len__(self) -> int:
        return len(self.cosine)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts over the searched collection; `df` says how many items hold a lexeme."""

    items: int
    mean_length: float
    df: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ranking:
    """`order` has the candidates' places, best first. `relevance` is the absolute score of each candidate in input
    order, `lexical` the share of the query's idf that it matches: both in [0, 1]."""

    order: Places
    relevance: Values
    lexical: Values


@dataclass(frozen=True, slots=True)
class Features:
    """What rank and gate look at: a value for each candidate, in input order.

    `closeness` is the mean cosine of the text as a whole and of its nearest passage, `closest` the larger of the two.
    `own` is what the item itself says of the query's words, `lexical` with what its neighbours say. `recited` is 1 for
    what the agent itself said where the query does not ask for that. `mass` is the rarity of all the query's words.
    `by_loop` has the places of the candidates loop by loop, in order of position.
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


def rarity(df: float, items: int, recipe: Recipe = RECIPE) -> float:
    """BM25's idf divided by its largest value: 1 for a term nobody used, towards 0 for one everybody uses."""
    n = items + recipe.prior_items
    return math.log(1 + (n - df + 0.5) / (df + 0.5)) / math.log(2 * n + 2)


def rarest(lexemes: Iterable[str], stats: Statistics, recipe: Recipe = RECIPE) -> list[str]:
    """The lexemes that say most, at most as many as the recipe weighs."""
    return sorted(lexemes, key=lambda lexeme: (stats.df.get(lexeme, 0), lexeme))[: recipe.max_terms]


def features(query: Query, rows: Candidates, stats: Statistics, recipe: Recipe = RECIPE) -> Features:
    """The evidence for each of `rows`."""
    df = (min(stats.df.get(lexeme, 0), stats.items) for lexeme in query.lexemes)
    idf = np.array([rarity(n, stats.items, recipe) for n in df])
    mass = float(idf.sum())
    coverage = rows.held @ idf / mass if mass else np.zeros(len(rows))
    cosine = filled(rows.cosine, recipe.blind_cosine + recipe.blind_coverage * coverage)
    relative = rows.length / max(stats.mean_length, 1.0)
    # A word that occurs again in an item changes nothing measurable, so only its presence is asked.
    saturation = 1 + recipe.k1 * (1 - recipe.b + recipe.b * relative)
    long = 1 + np.maximum(rows.length - recipe.long_words, 0) / recipe.long_words
    own = rows.held / (saturation * long)[:, None]
    passage = filled(rows.passage, cosine)
    closeness = (cosine + passage) / 2
    by_loop = np.lexsort((rows.position, rows.loop))
    return Features(
        cosine=cosine,
        closeness=closeness,
        closest=np.maximum(cosine, passage),
        lexical=_with_neighbours(rows, by_loop, own, recipe) @ idf / math.sqrt(mass) if mass else np.zeros(len(rows)),
        own=own @ idf / math.sqrt(mass) if mass else np.zeros(len(rows)),
        coverage=coverage,
        name=_named(rows),
        length=np.log1p(np.minimum(rows.length, recipe.length_cap)),
        loop=around(rows, closeness, recipe),
        time=(rows.says_time & query.asks_time).astype(float),
        recited=((rows.speaker == SAID_BY_AGENT) & (not query.asks_agent)).astype(float),
        standing=rows.standing.astype(float),
        mass=mass,
        by_loop=by_loop,
    )


def filled(values: Values, instead: Values) -> Values:
    """`values` with those of `instead` where they are NaN."""
    return np.where(np.isnan(values), instead, values)


def _with_neighbours(rows: Candidates, order: Places, own: Values, recipe: Recipe) -> Values:
    """A term counts where it stands or, for a share, where a neighbour says it."""
    alone = own[order]
    together = alone.copy()
    joined = _joined(rows, order)
    for distance, share in recipe.window:
        apart = abs(distance)
        # The earlier of each pair that lies so far apart with no gap between.
        linked = joined if apart == 1 else joined[:-1] & joined[1:]
        if distance < 0:
            here, there = together[apart:], alone[:-apart]
        else:
            here, there = together[:-apart], alone[apart:]
        np.maximum(here, (share * linked)[:, None] * there, out=here)
    said = np.empty_like(own)
    said[order] = together
    return said


def _joined(rows: Candidates, order: Places) -> Flags:
    """For each place of `order` but the last whether the next item is this one's neighbour in its loop."""
    loop, hit = rows.loop[order], rows.hit[order]
    same = (loop[:-1] == loop[1:]) & (loop[:-1] >= 0)
    # A hit knows two places on both sides: one that lies on either side, or one place further, vouches for the pair.
    known = hit[:-1] | hit[1:]
    inner = same & known
    inner[1:] |= same[1:] & same[:-1] & hit[:-2]
    inner[:-1] |= same[:-1] & same[1:] & hit[2:]
    return inner


def around(rows: Candidates, cosine: Values, recipe: Recipe = RECIPE) -> Values:
    """How close the loop of each candidate comes to the query; its own cosine where it has no loop."""
    order = np.lexsort((-cosine, rows.loop))
    begins, group = loop_groups(rows, order)
    closest = np.arange(len(order)) - begins[group] < recipe.loop_top
    counted = group[closest]
    sums = np.bincount(counted, weights=cosine[order][closest])
    around = np.empty(len(order))
    around[order] = (sums / np.bincount(counted))[group]
    return np.where(rows.loop < 0, cosine, around)


def loop_groups(rows: Candidates, order: Places) -> tuple[Places, Places]:
    """Where each loop begins in `order`, which has them one after the other, and the number of each place's loop."""
    loop = rows.loop[order]
    first = np.ones(len(loop), bool)
    np.not_equal(loop[1:], loop[:-1], out=first[1:])
    return np.flatnonzero(first), np.cumsum(first) - 1


def _named(rows: Candidates) -> Values:
    """Whether the query names who said it or whom it is about; what is nobody's counts when it holds the name."""
    known = rows.named.any(axis=0)
    if not known.any():
        return np.zeros(len(rows))
    mine = np.where(rows.nameless[:, None], rows.held & known, rows.named)
    return mine.any(axis=1).astype(float)


def fused_scores(f: Features, recipe: Recipe = RECIPE) -> Values:
    """How well each candidate answers, against the other candidates of the same query."""
    value: Values = (
        recipe.w_cosine * f.closeness
        + recipe.w_lexical * f.lexical
        + recipe.w_name * f.name
        + recipe.w_length * f.length
        + recipe.w_loop * f.loop
        + recipe.w_time * f.time
        + recipe.w_agent * f.recited
        + recipe.w_standing * f.standing
    )
    return value


def gate(f: Features, items: int, recipe: Recipe = RECIPE) -> float:
    """Log-odds that the collection holds anything about the query."""
    return (
        recipe.g_cosine * float(f.closest.max())
        + recipe.g_lexical * float(f.lexical.max())
        + recipe.g_size * math.sqrt(2 * math.log(max(items, 1)))
        + recipe.g_bias
    )


def relevance(behind: Values, log_odds: float, half_gap: float, reach: float | None) -> Values:
    """Chance that the collection holds an answer, less for each candidate the further it is `behind` the best.

    At `reach` it has fallen to RELEVANT, from there on it halves for every `half_gap`. Without a reach, and where the
    collection is not likely enough to hold an answer, it halves from the best on.
    """
    chance = 1 / (1 + math.exp(-max(-60.0, min(60.0, log_odds))))
    if reach is None or chance < RELEVANT:
        return np.asarray(chance * np.exp2(-behind / half_gap))
    near = chance * (RELEVANT / chance) ** (behind / reach)
    return np.where(behind <= reach, near, RELEVANT * np.exp2((reach - behind) / half_gap))
