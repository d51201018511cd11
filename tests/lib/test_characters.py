"""Which characters do not show where they stand, and which belong to a script that needs them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nousweb.lib.characters import character_name, hidden_indices, invisible_characters, shows_all, without_hidden
from nousweb.lib.validation import unapprovable_reason


@pytest.mark.parametrize(
    "text",
    [
        "plain\n\ttext",
        "é – … “”\u00a0\u3000",
        "שלום עולם",
        "مرحبا بالعالم",
        "می\u200cخواهم",
        "क्\u200dष",
        "ක්\u200dර",
        "ಬ್ಯಾಂಕ್\u200c ",
        "👩\u200d🚀",
        "👨\u200d👩\u200d👧\u200d👦",
        "👩🏽\u200d🚀",
        "🏳\ufe0f\u200d🌈",
        "❤\ufe0f\u200d🔥",
        "#\ufe0f\u20e3",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "نمی\u200cخواسته\u200cام",
        "به\u200cڕێوه\u200cبه\u200cر",
        "مَ\u200cا",
        "র\u200d্য",
        "ක්\u200dරික්\u200dර",
        "ক\u200cখ ক\u200cখ",
        "⠓\u2800⠕",
        "\U0001fae8",
    ],
)
def test_characters_that_scripts_and_emoji_need_are_allowed(text):
    assert list(hidden_indices(text)) == []
    assert unapprovable_reason(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "ke\u200dys",
        "ke\u200cys",
        "\u200d",
        "→\u200d→",
        "م\u200c\u200cا",
        "م\u200c ",
        "م\u200dا",
        "کار\u200cها",
        "کارِ\u200cها",
        "ক\u200cখ\u200cগ",
        "葛\U000e0100",
        "a\ufe0f",
        "葛\U000e0100\U000e0101",
        "🏴\U000e0067\U000e0062",
        "x\U000e0041",
        "\u202eabc",
        "\u2066abc\u2069",
        "\u200eabc",
        "\u061cabc",
        "soft\u00adhyphen",
        "\u3164",
        "\u115f",
        "\u2800",
        "a\u2028b",
        "a\u2029b",
        "\ufff9a",
        "\ue000",
        "\U0010fffd",
        "\u0378",
        "\ufdd0",
        "\U000e0001",
        "\u206a",
        "\x00",
        "\x07",
        "\x7f",
        "\x85",
        "\ufeff",
        "\u2060",
        "\u034f",
        "\U0001d159",
        "\U00016fe4",
    ],
)
def test_characters_that_hide_are_found_named_and_removed(text):
    assert not shows_all(text)
    places = invisible_characters(text)
    assert places
    reason = unapprovable_reason(text)
    assert reason is not None
    assert f"{places[0].code} {places[0].name}" in reason
    assert list(hidden_indices(without_hidden(text))) == []


def test_character_place_is_given_by_line_and_column():
    assert unapprovable_reason("Be kind.\nNever\u202e leak.") == (
        "It contains characters that are invisible or reorder others: U+202E RIGHT-TO-LEFT OVERRIDE (line 2, column 6)."
    )
    assert "and 2 more" in str(unapprovable_reason("\u200b" * 5))


@pytest.mark.parametrize(
    ("character", "name"),
    [
        ("\x00", "NULL"),
        ("\x1b", "ESCAPE"),
        ("\x85", "NEXT LINE"),
        ("\x90", "CONTROL CHARACTER"),
        ("\ue000", "PRIVATE USE CHARACTER"),
        ("\u0378", "UNASSIGNED CHARACTER"),
        ("\u2066", "LEFT-TO-RIGHT ISOLATE"),
    ],
)
def test_character_names_are_complete(character, name):
    assert character_name(character) == name


@given(
    text=st.text(st.sampled_from("a مرক👩🏽\u200c\u200d\ufe0f\U000e0100葛क\u094d\u202e\u00ad\U000e0067🏴"), max_size=12)
)
@example("م\u200c\u200d\u200cا")
def test_character_removal_leaves_nothing_hidden_and_only_removes(text):
    left = without_hidden(text)
    assert list(hidden_indices(left)) == []
    remaining = iter(text)
    assert all(character in remaining for character in left)
    if shows_all(text):
        assert left == text
