"""Differences by line and by word: what is marked has changed, and nothing else."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nousweb.lib.textdiff import Row, TextDiff, diff_texts

SENTENCE = (
    "It keeps the house calm: it looks before it speaks, it asks when it does not know, it says what it saw and"
    " what it did, and it never hides a fault that it has made."
)
lines = st.lists(st.text(st.sampled_from("ab ,.\t"), max_size=12), max_size=8).map("\n".join)


def marked(diff: TextDiff) -> tuple[list[str], list[str]]:
    """The pieces that are marked on the old and on the new side."""
    old = [span.text for row in diff.rows for span in row.old_spans if span.kind != "equal"]
    return old, [span.text for row in diff.rows for span in row.new_spans if span.kind != "equal"]


@pytest.mark.parametrize("times", [1, 4])
def test_one_changed_word_of_a_long_line_is_the_only_one_marked(times: int) -> None:
    old = " ".join([SENTENCE] * times)
    assert old.count(" ") > 16
    at = old.rindex("saw")
    assert marked(diff_texts(old, old[:at] + "heard" + old[at + 3 :])) == (["saw"], ["heard"])


def test_words_put_in_at_several_places_of_a_long_line_are_the_only_ones_marked() -> None:
    new = SENTENCE.replace("the house", "the whole house").replace("it saw", "it truly saw").replace(" that it", "")
    assert marked(diff_texts(SENTENCE, new)) == ([" that it"], [" whole", " truly"])


def test_changed_blanks_are_marked() -> None:
    assert marked(diff_texts("one two three", "one  two three ")) == ([" "], ["  ", " "])


def test_neighbouring_changed_words_are_one_change() -> None:
    assert marked(diff_texts("one two three four", "one six seven four")) == (["two three"], ["six seven"])


def shown(rows: tuple[Row, ...], side: str) -> list[str]:
    found = []
    for row in rows:
        if row.kind == "gap":
            found += shown(row.hidden_rows, side)
        elif getattr(row, f"{side}_no"):
            found.append("".join(span.text for span in getattr(row, f"{side}_spans")))
    return found


@given(lines, lines)
def test_both_texts_can_be_read_from_the_difference(old: str, new: str) -> None:
    rows = diff_texts(old, new).rows
    assert "\n".join(shown(rows, "old")) == old
    assert "\n".join(shown(rows, "new")) == new


@given(lines, lines)
def test_what_is_not_marked_is_the_same_on_both_sides(old: str, new: str) -> None:
    for row in diff_texts(old, new).rows:
        kept = ["".join(s.text for s in spans if s.kind == "equal") for spans in (row.old_spans, row.new_spans)]
        assert row.kind != "changed" or kept[0] == kept[1]


def test_hostile_repetition_takes_no_time() -> None:
    began = time.process_time()
    for old, new in (
        ("a " * 2_000, "a b " * 1_000),
        (" a,b" * 1_000, ",b a" * 1_000),
        ("x\n\n" * 1_000, "\nx\n" * 999),
    ):
        diff_texts(old, new)
    assert time.process_time() - began < 10, "cubic matching takes minutes"
