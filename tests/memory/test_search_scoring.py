"""The fusion by itself: its bounds, its order, and what it makes of neighbours, names and missing vectors."""

import math
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory.embedding.protocol import DEFAULT_MODEL, THRESHOLDS, thresholds_of
from memory.search.fusion import RELEVANT, Candidates, Query, Statistics, features, rarest_lexemes, rarity
from memory.search.input_kinds import KINDS, Shares, Told
from memory.search.ranking import WORDED, candidates_rank
from memory.search.search import calibrated

WORDS = [f"w{n}" for n in range(8)]


@dataclass
class Row:
    """One candidate as a test tells it."""

    cosine: float | None
    words: frozenset = frozenset()
    length: int = 10
    loop: int = -1
    position: int = 0
    hit: bool = True
    names: frozenset = frozenset()
    says_time: bool = False
    passage: float | None = None
    speaker: int = 0
    standing: int = 0
    asks: bool = False


def columns(lexemes, rows):
    def flags(of):
        return np.array([[word in of(row) for word in lexemes] for row in rows], bool).reshape(len(rows), len(lexemes))

    return Candidates(
        cosine=np.array([math.nan if row.cosine is None else row.cosine for row in rows], float),
        contains=flags(lambda row: row.words),
        named=flags(lambda row: row.names),
        nameless=np.array([not row.names for row in rows], bool),
        length=np.array([row.length for row in rows], float),
        loop=np.array([row.loop for row in rows], np.int64),
        position=np.array([row.position for row in rows], np.int64),
        hit=np.array([row.hit for row in rows], bool),
        says_time=np.array([row.says_time for row in rows], bool),
        passage=np.array([math.nan if row.passage is None else row.passage for row in rows], float),
        second=np.array([math.nan if row.passage is None else row.passage - 0.1 for row in rows], float),
        speaker=np.array([row.speaker for row in rows], np.int64),
        standing=np.array([row.standing for row in rows], np.int64),
        asks=np.array([row.asks for row in rows], bool),
    )


def ranked(query, rows, counts):
    """Places, best first, with the score and the share of words of each row in input order."""
    found = candidates_rank(query, columns(query.lexemes, rows), counts)
    return list(found.order), found.relevance, found.lexical


candidates = st.lists(
    st.builds(
        Row,
        cosine=st.none() | st.floats(-1, 1),
        words=st.frozensets(st.sampled_from(WORDS), max_size=4),
        length=st.integers(0, 5000),
        loop=st.integers(-1, 2),
        position=st.integers(0, 30),
        hit=st.booleans(),
        names=st.frozensets(st.sampled_from(WORDS[:2])),
        says_time=st.booleans(),
        passage=st.none() | st.floats(-1, 1),
        speaker=st.integers(0, 2),
        standing=st.integers(0, 2),
        asks=st.booleans(),
    ),
    max_size=12,
)
statistics = st.builds(
    Statistics,
    items=st.integers(0, 10**6),
    mean_length=st.floats(0, 1000),
    df=st.dictionaries(st.sampled_from(WORDS), st.integers(0, 10**6)),
)


@given(
    st.builds(Query, lexemes=st.lists(st.sampled_from(WORDS), unique=True), asks_time=st.booleans()),
    candidates,
    statistics,
)
def test_scoring_returns_every_candidate_once_in_order_and_in_bounds(query, rows, counts):
    order, relevance, lexical = ranked(query, rows, counts)
    assert sorted(order) == list(range(len(rows)))
    values = list(relevance[order])
    assert values == sorted(values, reverse=True)
    assert np.isfinite(relevance).all()
    assert all(0 <= value <= 1 for value in [*relevance, *lexical])
    again = ranked(query, rows, counts)
    assert (order, list(relevance), list(lexical)) == (again[0], list(again[1]), list(again[2]))


@given(
    st.sampled_from(list(KINDS.values())),
    st.lists(
        st.builds(
            Row,
            cosine=st.floats(-1, 1),
            words=st.frozensets(st.sampled_from(WORDS), max_size=4),
            length=st.integers(1, 50),
            loop=st.integers(-1, 2),
            position=st.integers(0, 30),
        ),
        min_size=15,
        max_size=40,
    ),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_first_items_hold_the_best_of_every_signal_whatever_the_input(kind, rows, chance, filtered):
    """At 10 and 20, behind what is told by itself: the best by meaning and by words, whatever the ranker thinks."""
    query, counts = Query(WORDS), Statistics(1000, 10.0, dict.fromkeys(WORDS, 30))
    given = replace(columns(WORDS, rows), moved=np.array([chance.uniform(-1, 1) for _ in rows]))
    wanted = np.array([not filtered or chance.random() < 0.9 for _ in rows])
    found = candidates_rank(query, given, counts, kind=kind, wanted=wanted)
    order = [place for place in found.order.tolist() if wanted[place]]
    seen = features(query, given, counts)
    shares = kind.shares[bool(seen.coverage[wanted].max(initial=0) >= WORDED)]
    told = int((found.relevance[order] >= RELEVANT).sum()) if kind.told == Told.MATTERS else 0
    for k in (10, 20):
        for share, signal in zip(shares, (given.moved, None, seen.closeness, seen.own), strict=True):
            if signal is not None:
                best = sorted(np.flatnonzero(wanted).tolist(), key=lambda place: -signal[place])
                best = [place for place in best if signal is not seen.own or signal[place] > 0]
                worst = min((signal[place] for place in best[: k // sum(shares) * share]), default=None)
                first = order[: k + told]
                assert worst is None or all(signal[place] <= worst or place in first for place in best)


def test_every_kind_of_input_has_shares_of_its_signals():
    """Meaning always, the words where an item holds much of them, the moved vector for statements."""
    for kind in KINDS.values():
        for worded, shares in enumerate(kind.shares):
            assert isinstance(shares, Shares)
            assert sum(shares) <= 10
            assert min(shares.ranker, shares.meaning) >= 1
            assert shares.words >= worded
            assert shares.moved > 0 or kind.told != Told.MATTERS


def plainly_joined(rows):
    """Pairs of neighbours by their definition: next to each other in a loop, and a hit at most two places off."""
    found = set()
    for loop in {row.loop for row in rows} - {-1}:
        members = sorted((i for i, row in enumerate(rows) if row.loop == loop), key=lambda i: rows[i].position)
        for at in range(len(members) - 1):
            if any(rows[i].hit for i in members[max(0, at - 1) : at + 3]):
                found.add((members[at], members[at + 1]))
    return found


@given(candidates)
def test_scoring_word_counts_for_neighbours_only(rows):
    for place, row in enumerate(rows):
        row.words, row.position = frozenset({"w0"} if place == 0 else ()), place * 3
    found = features(Query(["w0"]), columns(["w0"], rows), Statistics(1000, 10.0, {"w0": 3})).lexical if rows else []
    joined = plainly_joined(rows)
    near = {0} | {b for a, b in joined if a == 0} | {c for a, b in joined if a == 0 for b2, c in joined if b2 == b}
    assert {place for place in range(len(rows)) if found[place] > 0} == (near if rows else set())


def one(cosine, *words, **more):
    return Row(cosine, frozenset(words), **more)


COUNTS = Statistics(1000, 10.0, {"redis": 3, "said": 900})


def test_scoring_unrelated_query_finds_nothing_and_related_does():
    query = Query(["redis"])
    _, unrelated, _ = ranked(query, [one(0.2), one(0.15)], COUNTS)
    order, related, _ = ranked(query, [one(0.2), one(0.6, "redis")], COUNTS)
    assert max(unrelated) < 0.05
    assert order[0] == 1
    assert related[1] > 0.6 > 0.25 > related[0]


def test_scoring_rare_word_weighs_more_than_a_common_one():
    assert 1 >= rarity(0, 1000) > rarity(3, 1000) > rarity(900, 1000) > 0
    assert rarest_lexemes(["said", "redis"], COUNTS) == ["redis", "said"]
    order, _, lexical = ranked(Query(["redis", "said"]), [one(0.4, "said"), one(0.4, "redis")], COUNTS)
    assert order == [1, 0]
    assert lexical[1] > 0.8 > 0.2 > lexical[0]


def test_scoring_long_query_is_weighed_by_its_rarest_words():
    words = [f"w{n:03}" for n in range(100)]
    kept = rarest_lexemes(words, Statistics(1000, 10.0, {word: place for place, word in enumerate(words)}))
    assert kept == words[:32]


def test_scoring_answer_is_found_by_the_question_before_it():
    asked = one(0.3, "redis", loop=1, position=10)
    answer, stranger = one(0.3, loop=1, position=11), one(0.3, loop=2, position=12)
    found = features(Query(["redis"]), columns(["redis"], [asked, answer, stranger]), COUNTS)
    assert found.lexical[1] == found.lexical[0] > found.lexical[2] == 0
    assert list(found.coverage > 0) == [True, False, False]


def test_scoring_gap_without_a_hit_separates_neighbours():
    far = [one(0.3, "redis", loop=1, position=1, hit=False), one(0.3, loop=1, position=9, hit=False)]
    assert features(Query(["redis"]), columns(["redis"], far), COUNTS).lexical[1] == 0


def test_scoring_named_subject_comes_first():
    rows = [one(0.4, names=frozenset({"bob"})), one(0.4, names=frozenset({"ann"}))]
    assert ranked(Query(["ann"]), rows, COUNTS)[0] == [1, 0]


def test_scoring_loop_warmth_is_that_of_its_three_closest():
    rows = [one(0.9, loop=1), one(0.5, loop=1), one(0.4, loop=1), one(0.1, loop=1), one(0.3), one(0.7, loop=2)]
    assert np.allclose(features(Query([]), columns([], rows), COUNTS).loop, [0.6, 0.6, 0.6, 0.6, 0.3, 0.7])


def test_scoring_item_without_a_vector_is_found_by_its_words():
    order, relevance, _ = ranked(Query(["redis"]), [one(0.1), one(None, "redis")], COUNTS)
    assert order[0] == 1
    assert relevance[1] > 0.25


def test_scoring_ties_go_by_input_order():
    assert ranked(Query([]), [one(0.4), one(0.4), one(0.5)], COUNTS)[0] == [2, 0, 1]


def test_scoring_cosines_of_every_model_share_one_scale():
    fitted = THRESHOLDS[DEFAULT_MODEL]
    for name in [*THRESHOLDS, "somebody:else"]:
        own = thresholds_of(name)
        assert np.isclose(calibrated(own.unrelated, own), fitted.unrelated)
        assert np.isclose(calibrated(own.related, own), fitted.related)
        assert 0 < own.check < 1
        assert 0 < own.relevance < 1
    assert calibrated(0.123, fitted) == 0.123
