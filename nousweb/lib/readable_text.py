"""Normalise a text to the form that a reader sees: without invisible characters, and with letters of other widths and
shapes, or of another script within a Latin word, replaced by plain ones.

Otherwise one invisible character would hide a word from every censor.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from nousweb.lib.characters import hidden_indices, shows_all
from nousweb.lib.lookalikes import lookalike_fold

MAX_MARKS = 30
"""Maximum number of combining marks per letter, as in Unicode's stream-safe format; sorting takes quadratic time."""
MAX_LETTERS = 4
"""A character that expands to more letters (up to 18, a whole phrase) is not expanded, to bound the length of texts."""


@dataclass(frozen=True, slots=True)
class ReadableText:
    """The normalised `text`. Its character i stands for `starts[i]` to before `ends[i]` of the original."""

    text: str
    starts: list[int]
    ends: list[int]

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """The span in the original of the characters `start` to before `end`, at least one, of the normalised text."""
        return self.starts[start], self.ends[end - 1]


def readable_text(text: str) -> ReadableText | None:
    """The normalised form of `text`, or None if that is equal to `text`."""
    if shows_all(text) and (
        text.isascii()
        or (not any(_marks_too_many(text)) and unicodedata.is_normalized("NFKC", text) and lookalike_fold(text) == text)
    ):
        return None
    indexes = list(range(len(text)))
    shown = text
    # A joiner between two invisible characters becomes invisible itself when they are removed.
    while hidden := set(hidden_indices(shown)):
        indexes = [place for index, place in enumerate(indexes) if index not in hidden]
        shown = "".join(text[place] for place in indexes)
    too_many = set(_marks_too_many(shown))
    indexes = [place for index, place in enumerate(indexes) if index not in too_many]
    shown = "".join(text[place] for place in indexes)
    pieces, starts, ends = [], [], []
    begin = 0
    while begin < len(shown):
        end = begin + 1
        # Combining marks are normalised together with their letter.
        while end < len(shown) and unicodedata.combining(shown[end]):
            end += 1
        piece = unicodedata.normalize("NFKC", shown[begin:end])
        if len(piece) > MAX_LETTERS * (end - begin):
            piece = shown[begin:end]
        pieces.append(piece)
        starts += [indexes[begin]] * len(piece)
        ends += [indexes[end - 1] + 1] * len(piece)
        begin = end
    read = lookalike_fold("".join(pieces))
    composed = unicodedata.normalize("NFC", read)
    if composed != read:
        # Letters that compose without combining marks, such as parts of a Korean syllable: map to the whole text.
        return ReadableText(composed, [0] * len(composed), [len(text)] * len(composed))
    return None if read == text else ReadableText(read, starts, ends)


def _marks_too_many(text: str) -> Iterator[int]:
    """Indexes of combining marks over MAX_MARKS of a letter."""
    marks = 0
    for index, character in enumerate(text):
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks > MAX_MARKS:
            yield index
