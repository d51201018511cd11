"""The text of long-term entries, of any content there may be."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.layers.event_validation import (
    MAX_PROSE_CHARACTERS,
    MAX_SPEAKER_CHARACTERS,
    OUTPUT_HEAD_CHARACTERS,
    OUTPUT_TAIL_CHARACTERS,
    compact,
    cut_at_sentence,
)
from memory.models import EventKind

MOST = max(MAX_PROSE_CHARACTERS, OUTPUT_HEAD_CHARACTERS + OUTPUT_TAIL_CHARACTERS + 60) + MAX_SPEAKER_CHARACTERS + 2
TRACE = 'Traceback (most recent call last):\n  File "app.py", line 3, in run\n    go()\n'


def test_layers_fold_white_space():
    assert compact("  so \t it\n\n goes ", kind="user_input", metadata={}) == "so it goes"


def test_layers_long_prose_ends_with_a_whole_sentence():
    sentences = [f"Sentence number {number} says a little more." for number in range(200)]
    text = compact("\n".join(sentences), kind="actor_output", metadata={})
    assert len(text) <= MAX_PROSE_CHARACTERS
    assert text.endswith("says a little more. …")
    assert len(text) > MAX_PROSE_CHARACTERS - 60


def test_layers_endless_sentence_is_cut_between_words():
    text = compact("word " * 3_000, kind="user_input", metadata={})
    assert text.endswith("word …")
    assert MAX_PROSE_CHARACTERS - 10 < len(text) <= MAX_PROSE_CHARACTERS


@pytest.mark.parametrize("kind", ["tool_result", "error"])
def test_layers_long_output_keeps_beginning_and_end(kind):
    lines = [f"line {number}: ok" for number in range(1, 2_001)]
    text = compact("\n".join(lines), kind=kind, metadata={})
    assert text.startswith("line 1: ok\nline 2: ok\n")
    assert text.endswith("\nline 1999: ok\nline 2000: ok")
    assert "characters …]" in text
    assert all(line.startswith(("line ", "[…")) and line.endswith(("ok", "…]")) for line in text.splitlines())
    assert len(text) <= OUTPUT_HEAD_CHARACTERS + OUTPUT_TAIL_CHARACTERS + 60


def test_layers_stack_trace_keeps_its_end():
    trace = TRACE + "    frame()\n" * 1_000 + "ValueError: the end"
    text = compact(f"It failed:\n{trace}", kind="user_input", metadata={})
    assert text.startswith("It failed:\nTraceback")
    assert text.endswith("ValueError: the end")


@pytest.mark.parametrize(
    ("content", "speaker", "text"),
    [
        ("Hello there.", "Caroline", "Caroline: Hello there."),
        ("Caroline: Hello there.", "Caroline", "Caroline: Hello there."),
        ("caroline says hello", "Caroline", "caroline says hello"),
        ("Hello.", "  ", "Hello."),
        ("Hello.", 17, "Hello."),
        ("Hello.", None, "Hello."),
        ("Hello.", ["Caroline"], "Hello."),
    ],
)
def test_layers_begin_with_the_speaker(content, speaker, text):
    assert compact(content, kind="user_input", metadata={"speaker": speaker}) == text


@given(
    st.one_of(st.text(), st.text("a. \n", min_size=1_500, max_size=6_000)),
    st.sampled_from(EventKind.values),
    st.one_of(st.none(), st.text(max_size=300)),
)
@example(TRACE * 100, "error", "x" * 300)
@example("x" * 200_000, "tool_result", None)
@example("x" * 200_000, "user_input", None)
def test_layers_long_term_text_is_bounded_deterministic_and_never_empty(content, kind, speaker):
    metadata = {"speaker": speaker}
    text = compact(content, kind=kind, metadata=metadata)
    assert len(text) <= MOST
    assert text == compact(content, kind=kind, metadata=metadata)
    assert bool(content.split()) <= bool(text)
    if not speaker and len(text) < len(" ".join(content.split())) and "…]" not in text:
        assert text.endswith(" …") or "\n" in text


@given(st.text(max_size=500), st.integers(10, 400))
def test_layers_cut_text_fits_and_is_a_beginning(text, limit):
    cut = cut_at_sentence(text, limit)
    assert len(cut) <= limit
    assert text.startswith(cut.removesuffix(" …"))
