"""Which words a reviewer is told to look at twice, and which mix scripts honestly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nousweb.lib.lookalikes import MAX_WARNINGS, lookalike_fold, warnings_of
from nousweb.lib.visible_text import direction, visible_html, visible_plain


def codes(text):
    return [(warning.code, warning.word) for warning in warnings_of(text)]


@pytest.mark.parametrize(
    ("text", "word", "named"),
    [
        ("The \u0430dmin says", "\u0430dmin", "U+0430 CYRILLIC SMALL LETTER A"),
        ("p\u0430yp\u0430l", "p\u0430yp\u0430l", "U+0430"),
        ("\u0391dmin", "\u0391dmin", "U+0391 GREEK CAPITAL LETTER ALPHA"),
        ("\uff41dmin", "\uff41dmin", "U+FF41 FULLWIDTH LATIN SMALL LETTER A"),
        ("\U0001d41admin", "\U0001d41admin", "MATHEMATICAL BOLD SMALL A"),
        ("\u13aadmin", "\u13aadmin", "CHEROKEE LETTER GO"),
        ("\u0441\u043e\u0440\u0443 the file", "\u0441\u043e\u0440\u0443", "CYRILLIC SMALL LETTER ES"),
        ("Кириллица с o\u0434\u043d\u043e\u0439", "o\u0434\u043d\u043e\u0439", "U+006F LATIN SMALL LETTER O"),
    ],
)
def test_mixed_script_word_is_reported_with_its_foreign_characters(text, word, named):
    [warning] = warnings_of(text)
    assert (warning.code, warning.word) == ("look_alike", word)
    assert named in warning.message
    assert warning.column == text.index(word) + 1
    assert "".join(part for part, _ in warning.parts) == word
    assert any(strange for _, strange in warning.parts)


@pytest.mark.parametrize(
    "text",
    [
        "Plain words.",
        "naïve café Straße – “yes”",
        "Привет, мир, а я тут",
        "English и русский текст рядом",
        "Δt λx kΩ µm x²",
        "Tシャツ 漢字 テスト",
        "Ελλάδα",
        "שלום עולם",
    ],
)
def test_ordinary_words_are_left_alone(text):
    assert warnings_of(text) == []


def test_bidirectional_line_and_hidden_characters_are_reported_in_order():
    assert codes("Be kind.\nעזור now\nke\u200bys") == [("mixed_direction", ""), ("hidden_character", "")]
    assert [(one.line, one.column) for one in warnings_of("Be kind.\nעזור now\nke\u200bys")] == [(2, 1), (3, 3)]
    assert len(warnings_of("\u200b\n" * 500)) == MAX_WARNINGS
    [warning] = warnings_of("a\u200b\u202e\u200b")
    assert warning.message == (
        "U+200B ZERO WIDTH SPACE, U+202E RIGHT-TO-LEFT OVERRIDE: "
        "invisible, or reorders other characters; 3 of them in this line."
    )


@given(text=st.text(max_size=40))
def test_any_text_can_be_analysed_and_shown(text):
    warnings_of(text)
    assert "\u202e" not in visible_html(text) + visible_plain(text)
    assert direction(text) in ("ltr", "rtl")


def test_mark_stands_in_the_place_of_its_character_and_is_no_markup():
    shown = visible_html("<b>\u202e</b>")
    assert shown.startswith('<bdi dir="ltr">&lt;b&gt;<span class="char-mark" role="img"')
    assert 'title="U+202E RIGHT-TO-LEFT OVERRIDE"' in shown
    assert shown.endswith(">U+202E</span>&lt;/b&gt;</bdi>")
    assert visible_plain("a\u202eb") == "a[U+202E]b"
    assert "+17 hidden" in visible_html("\u200b" * 20)
    assert visible_html("plain <b>") == "plain &lt;b&gt;"


def test_text_direction_is_that_of_most_letters():
    assert visible_html("א Never leak keys; ב always refuse.").startswith('<bdi dir="ltr">')
    assert visible_html("שלום עולם OK").startswith('<bdi dir="rtl">')


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("The b\u0430nk op\u0435ns at 9.", "The bank opens at 9."),
        ("\u0422im \u0430\u0440\u0435 here", "Tim ape here"),
        ("\u0411a\u043d\u043a \u043e\u0442\u043a\u0440\u044b\u0442", "Банк открыт"),
        ("привет мир", "привет мир"),
        ("\u0394t and \u03bbx, 5 \u03bcm", "\u0394t and \u03bbx, 5 \u03bcm"),
        ("plain", "plain"),
    ],
)
def test_letters_that_pass_for_others_are_folded_into_them(text, reads):
    assert lookalike_fold(text) == reads
    assert len(lookalike_fold(text)) == len(text)
