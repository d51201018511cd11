"""A text cut at the places where censors matched, for showing it with those places marked."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from memory.censoring.matching import STRICTNESS, Match


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the text. `severity` is the strictest of the matches that cover it, "" for none.

    `numbers` are the places in the list, from 1, of the matches that begin here.
    """

    text: str
    severity: str = ""
    numbers: tuple[int, ...] = ()


def marked(text: str, matches: Sequence[Match]) -> list[Piece]:
    """The pieces of `text`, in order and complete; matches that overlap share pieces."""
    begins: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[int]] = defaultdict(list)
    for number, match in enumerate(matches, 1):
        for span in match.spans:
            begins[span.start].append(number)
            ends[span.end].append(number)
    # How many of the spans that are open here are of which severity.
    open_spans = dict.fromkeys(STRICTNESS, 0)
    pieces: list[Piece] = []
    for start, end in pairwise(sorted({0, len(text), *begins, *ends})):
        for numbers, step in ((ends[start], -1), (begins[start], 1)):
            for number in numbers:
                open_spans[matches[number - 1].rule.severity] += step
        severity = next((name for name in STRICTNESS if open_spans[name]), "")
        pieces.append(Piece(text[start:end], severity, tuple(begins[start])))
    return pieces
