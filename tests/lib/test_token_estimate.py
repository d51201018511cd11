import pytest
from hypothesis import given
from hypothesis import strategies as st

from nousweb.lib.token_estimate import estimate_tokens, truncate_to_tokens


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abcd", 1), ("abc", 1), ("abcde", 2), ("x" * 400, 100)])
def test_token_estimate_is_a_quarter_of_the_characters_rounded_up(text, tokens):
    assert estimate_tokens(text) == tokens


def test_cut_of_a_long_section_ends_within_its_budget():
    for text in ("x" * 100_000, "word " * 20_000, "Sentence. " * 10_000, "\n" * 100_000):
        assert estimate_tokens(truncate_to_tokens(text, 100)) <= 100


@given(text=st.text(max_size=600), budget=st.integers(-2, 160))
def test_cut_is_never_over_budget_and_always_a_beginning(text, budget):
    cut = truncate_to_tokens(text, budget)
    if estimate_tokens(text) <= budget:
        assert cut == text
        return
    assert estimate_tokens(cut) <= max(budget, 0)
    assert cut == "" or text.startswith(cut.removesuffix(" …"))


def test_cut_falls_behind_a_sentence_else_a_word_else_anywhere():
    assert truncate_to_tokens("One two three. Four five six seven eight nine.", 6) == "One two three. …"
    assert truncate_to_tokens("One two three four five six seven eight nine", 6) == "One two three four …"
    assert truncate_to_tokens("a " + "b" * 100, 5) == "a " + "b" * 16 + " …"


@pytest.mark.parametrize("budget", [0, -1, -(10**9)])
def test_cut_to_no_budget_is_empty(budget):
    assert truncate_to_tokens("text", budget) == ""
