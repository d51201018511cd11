"""The fusion by itself: its bounds, its order, and what it makes of neighbours, names and missing vectors."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory.embedding.thresholds import DEFAULT_MODEL, THRESHOLDS, thresholds_of
from memory.search.scoring import Candidate, Query, Statistics, features, rarity, score
from memory.search.search import _positions, calibrated

WORDS = [f"w{n}" for n in range(8)]
candidates = st.lists(
    st.builds(
        Candidate,
        id=st.integers(0, 10**9),
        cosine=st.none() | st.floats(-1, 1),
        tf=st.dictionaries(st.sampled_from(WORDS), st.integers(1, 50), max_size=4),
        length=st.integers(0, 5000),
        loop=st.none() | st.sampled_from(["l1", "l2"]),
        position=st.none() | st.integers(0, 30),
        names=st.frozensets(st.sampled_from(WORDS[:2])),
        says_time=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda row: row.id,
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
def test_every_candidate_comes_back_once_in_order_and_in_bounds(query, rows, counts):
    found = score(query, rows, counts)
    assert sorted(one.id for one in found) == sorted(row.id for row in rows)
    values = [one.score for one in found]
    assert values == sorted(values, reverse=True)
    assert all(0 <= one.score <= 1 and 0 <= one.lexical <= 1 and math.isfinite(one.score) for one in found)
    assert found == score(query, rows, counts)


def one(name, cosine, *words, **more):
    return Candidate(name, cosine, dict.fromkeys(words, 1), more.pop("length", 10), **more)


COUNTS = Statistics(1000, 10.0, {"redis": 3, "said": 900})


def test_an_unrelated_question_finds_nothing_and_a_related_one_does():
    query = Query(["redis"])
    unrelated = score(query, [one("a", 0.2), one("b", 0.15)], COUNTS)
    related = score(query, [one("a", 0.2), one("b", 0.6, "redis")], COUNTS)
    assert max(found.score for found in unrelated) < 0.05
    assert related[0].id == "b"
    assert related[0].score > 0.6 > 0.25 > related[1].score


def test_a_rare_word_says_more_than_a_common_one():
    assert 1 >= rarity(0, 1000) > rarity(3, 1000) > rarity(900, 1000) > 0
    found = score(Query(["redis", "said"]), [one("common", 0.4, "said"), one("rare", 0.4, "redis")], COUNTS)
    assert [x.id for x in found] == ["rare", "common"]
    assert found[0].lexical > 0.8 > 0.2 > found[1].lexical


def test_an_answer_is_found_by_the_question_before_it():
    asked = one("question", 0.3, "redis", loop="l", position=0)
    answer, stranger = one("answer", 0.3, loop="l", position=1), one("stranger", 0.3, loop="l", position=7)
    found = features(Query(["redis"]), [asked, answer, stranger], COUNTS)
    assert found.lexical[1] == found.lexical[0] > found.lexical[2] == 0
    assert list(found.coverage > 0) == [True, False, False]


def test_who_is_named_comes_first():
    rows = [one("bob", 0.4, names=frozenset({"bob"})), one("ann", 0.4, names=frozenset({"ann"}))]
    assert score(Query(["ann"]), rows, COUNTS)[0].id == "ann"


def test_an_item_without_a_vector_is_found_by_its_words():
    rows = [one("blind", None, "redis"), one("seen", 0.1)]
    found = score(Query(["redis"]), rows, COUNTS)
    assert found[0].id == "blind"
    assert found[0].score > 0.25


def test_ties_go_by_cosine_then_by_input_order():
    rows = [one(1, 0.4), one(2, 0.4)]
    assert [x.id for x in score(Query([]), rows, COUNTS)] == [1, 2]
    assert [x.id for x in score(Query([]), rows[::-1], COUNTS)] == [2, 1]


def test_chains_of_neighbours_become_positions():
    def row(key, before=None, after=()):
        return {"id": key, "before": before, "after": list(after) if before is not None else None}

    rows = [row(5, [4, 3], [6, 7]), row(3), row(4), row(6), row(7, [6, 5], [8]), row(8), row(20, [], [])]
    places = _positions(rows)
    assert [places[key] - places[3] for key in (3, 4, 5, 6, 7, 8)] == [0, 1, 2, 3, 4, 5]
    assert 20 not in places


def test_cosines_of_every_known_model_meet_on_one_scale():
    fitted = THRESHOLDS[DEFAULT_MODEL]
    for name in [*THRESHOLDS, "somebody:else"]:
        own = thresholds_of(name)
        assert np.isclose(calibrated(own.unrelated, own), fitted.unrelated)
        assert np.isclose(calibrated(own.related, own), fitted.related)
        assert 0 < own.check < own.duplicate < 1
        assert 0 < own.relevance < 1
    assert calibrated(0.123, fitted) == 0.123
