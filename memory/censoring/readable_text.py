"""A text as it reads: without hidden characters, and with letters of other widths and shapes, or of another script in
a Latin word, as the plain ones.

One character that does not show would else part every word that a censor looks for.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from nousweb.lib.characters import hidden_indices, shows_all
from nousweb.lib.lookalikes import lookalike_fold

MOST_MARKS = 30
"""So many marks combine with one letter, as Unicode's stream-safe form has it; sorting more takes their square."""
MOST_LETTERS = 4
"""A character that stands for more letters (a whole phrase, up to 18) stays one, so that texts grow within bounds."""


@dataclass(frozen=True, slots=True)
class Reading:
    """`text` as it reads; its character at i stands for those from `starts[i]` to before `ends[i]` of the original."""

    text: str
    starts: list[int]
    ends: list[int]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where characters `start` to before `end`, at least one, stand in the original."""
        return self.starts[start], self.ends[end - 1]


def text_read(text: str) -> Reading | None:
    """`text` as it reads, or None where that is `text` itself."""
    if shows_all(text) and (
        text.isascii()
        or (not any(_marks_too_many(text)) and unicodedata.is_normalized("NFKC", text) and lookalike_fold(text) == text)
    ):
        return None
    kept = list(range(len(text)))
    shown = text
    # A joiner between two hidden characters is hidden once they are gone.
    while hidden := set(hidden_indices(shown)):
        kept = [place for index, place in enumerate(kept) if index not in hidden]
        shown = "".join(text[place] for place in kept)
    too_many = set(_marks_too_many(shown))
    kept = [place for index, place in enumerate(kept) if index not in too_many]
    shown = "".join(text[place] for place in kept)
    pieces, starts, ends = [], [], []
    begin = 0
    while begin < len(shown):
        end = begin + 1
        # What combines with a letter is normalised with it.
        while end < len(shown) and unicodedata.combining(shown[end]):
            end += 1
        piece = unicodedata.normalize("NFKC", shown[begin:end])
        if len(piece) > MOST_LETTERS * (end - begin):
            piece = shown[begin:end]
        pieces.append(piece)
        starts += [kept[begin]] * len(piece)
        ends += [kept[end - 1] + 1] * len(piece)
        begin = end
    read = lookalike_fold("".join(pieces))
    composed = unicodedata.normalize("NFC", read)
    if composed != read:
        # Letters that join without combining, such as the parts of a Korean syllable: the whole text is the place.
        return Reading(composed, [0] * len(composed), [len(text)] * len(composed))
    return None if read == text else Reading(read, starts, ends)


def _marks_too_many(text: str) -> Iterator[int]:
    """Where marks stand that combine with a letter after as many others as are read."""
    marks = 0
    for index, character in enumerate(text):
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks > MOST_MARKS:
            yield index
