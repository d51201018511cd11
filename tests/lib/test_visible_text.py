"""Where the terms of a search stand in a text."""

import re

import pytest

from nousweb.lib.visible_text import snippet, terms_in


@pytest.mark.parametrize(
    ("text", "terms", "marked"),
    [
        ("Linz is in the inner alps.", ["in"], ["in"]),
        ("A replica lagged; the lag grew.", ["lag"], ["lag"]),
        ("A replica lagged.", ["lag"], ["lag"]),
        ("Marinated, but not rinated.", ["rinat"], ["rinat"]),
        ("Marinated.", ["rinat"], ["rinat"]),
        ("İSTANBUL, Οδός and Straße.", ["istanbul", "ΟΔΌΣ", "straße"], ["İSTANBUL", "Οδός", "Straße"]),
        ("C++ is older.", ["c++", "rust"], ["C++"]),
        ("Nothing of it.", ["rust", "zig"], []),
        (f"x {'a' * 12_000}", ["a" * 10_500], ["a" * 10_500]),
    ],
)
def test_terms_are_found_by_word_beginning_or_anywhere_whatever_their_case_and_length(text, terms, marked):
    assert [place[0] for place in re.finditer(terms_in(text, terms), text, re.IGNORECASE)] == marked


def test_snippet_is_around_the_first_place_of_any_term():
    text = f"{'Words before it. ' * 500}Here the Ledger stops. {'Words after it. ' * 500}"
    shown = snippet(text, ["rust", "stops", "ledger"])
    assert shown.startswith("…")
    assert "Here the Ledger stops." in shown
    assert snippet(text, ["rust"]).startswith("Words before it.")
