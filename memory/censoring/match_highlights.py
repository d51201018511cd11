"""Split a text at the matches of censors, to show it with the matches highlighted."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from memory.censoring.censor_matching import STRICTNESS, Match


@dataclass(frozen=True, slots=True)
class HighlightedPiece:
    """A part of the text. `severity`: the strictest of the matches that cover it, "" for none.

    `numbers`: the numbers, from 1, of the matches that begin here.
    """

    text: str
    severity: str = ""
    numbers: tuple[int, ...] = ()


def highlight_matches(text: str, matches: Sequence[Match]) -> list[HighlightedPiece]:
    """Split all of `text` into pieces, in order; overlapping matches share pieces."""
    begins: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[int]] = defaultdict(list)
    for number, match in enumerate(matches, 1):
        for span in match.spans:
            begins[span.start].append(number)
            ends[span.end].append(number)
    # Number of the open spans by severity.
    open_spans = dict.fromkeys(STRICTNESS, 0)
    pieces: list[HighlightedPiece] = []
    for start, end in pairwise(sorted({0, len(text), *begins, *ends})):
        for numbers, step in ((ends[start], -1), (begins[start], 1)):
            for number in numbers:
                open_spans[matches[number - 1].rule.severity] += step
        severity = next((name for name in STRICTNESS if open_spans[name]), "")
        pieces.append(HighlightedPiece(text[start:end], severity, tuple(begins[start])))
    return pieces
