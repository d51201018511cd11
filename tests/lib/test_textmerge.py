"""Merging two edits of one text: what both sides did is there, and what they both touched is for a person."""

import pytest

from nousweb.lib.textdiff import merge_texts

BASE = "one\ntwo\nthree\nfour"


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        (f"{BASE}\nfive", f"{BASE}\nsix", f"{BASE}\nfive\nsix"),
        (f"zero\n{BASE}", f"{BASE}\nfive", f"zero\n{BASE}\nfive"),
        ("one\nTWO\nthree\nfour", f"{BASE}\nfive", "one\nTWO\nthree\nfour\nfive"),
        ("one\ntwo\nthree\nFOUR", f"{BASE}\nfive", "one\ntwo\nthree\nFOUR\nfive"),
        ("ONE\ntwo\nthree\nfour", f"zero\n{BASE}", "zero\nONE\ntwo\nthree\nfour"),
        ("one\nTWO\nthree\nfour", "one\ntwo\nTHREE\nfour", "one\nTWO\nTHREE\nfour"),
        ("one\nthree\nfour", "one\ntwo\nthree\nFOUR", "one\nthree\nFOUR"),
        ("one\nTWO\nthree\nfour", "one\nTWO\nthree\nfour\nfive", "one\nTWO\nthree\nfour\nfive"),
        (f"{BASE}\nfive", f"{BASE}\nfive\nsix", f"{BASE}\nfive\nsix"),
        (BASE, f"{BASE}\nfive", f"{BASE}\nfive"),
    ],
)  # fmt: skip
def test_changes_of_different_lines_are_put_together(ours: str, theirs: str, merged: str) -> None:
    assert merge_texts(BASE, ours, theirs) == merged


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("one\nTWO\nthree\nfour", "one\ntoo\nthree\nfour"),
        ("one\nthree\nfour", "one\nTWO\nthree\nfour"),
        ("one\nfour", "one\ntwo\nbetween\nthree\nfour"),
    ],
)
def test_changes_of_the_same_lines_are_for_a_person(ours: str, theirs: str) -> None:
    assert merge_texts(BASE, ours, theirs) is None
    assert merge_texts(BASE, theirs, ours) is None


def test_two_first_texts_are_for_a_person() -> None:
    assert merge_texts("", "Be kind.", "Be honest.") is None
    assert merge_texts("", "Be kind.", "Be kind.") == "Be kind."
