"""Words that two texts share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.engine.assembly.text_compression import compress
from nousweb.lib.token_estimate import estimate_tokens
from nousweb.lib.word_overlap import share_within, words_of


def jaccard(first, second):
    """The measure that is not taken: a long answer would hide what it quotes."""
    return len(first & second) / len(first | second)


def test_overlap_item_quoted_in_a_long_answer_counts_whole():
    item = words_of("checkout keeps carts in Redis")
    answer = words_of("checkout keeps carts in Redis " + " ".join(f"word{n}" for n in range(500)))
    assert share_within(item, answer) == 1.0
    assert jaccard(item, answer) < 0.02


@pytest.mark.parametrize("empty", ["", "a b", "??"])
def test_overlap_of_nothing_is_zero(empty):
    assert share_within(words_of(empty), words_of("the quick brown fox")) == 0.0


@given(st.text(max_size=2_000), st.text(max_size=100), st.integers(0, 200), st.floats(0, 1))
def test_compression_keeps_to_its_bounds(text, query, tokens, min_share):
    short = compress(text, query, max_tokens=tokens, min_share=min_share)
    if short is not None:
        assert estimate_tokens(short) <= tokens
        assert len(short) >= min_share * len(text) or short == text


def test_compression_keeps_the_sentences_that_answer():
    text = "The office has plants. Carts expire after 30 minutes in Redis. Lunch is at noon. The lift is slow."
    assert compress(text, "when do carts expire in Redis?", max_tokens=14, min_share=0.2) == (
        "Carts expire after 30 minutes in Redis."
    )
