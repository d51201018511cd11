"""The answer that a prompt led to, cut where it refers to a memory of that prompt."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from context.feedback.references import references_of
from context.models import ContextRun
from context.services.response import memories_shown

JOINED_CHARACTERS = 12
"""Marks of one memory with no more than this between them, on one line, are one."""


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A stretch of the answer. `numbers` are of the memories it refers to, `begins` of those whose mark begins here."""

    text: str
    numbers: tuple[int, ...] = ()
    begins: tuple[int, ...] = ()


def answer_pieces(run: ContextRun, numbers: Mapping[tuple[str, str], int]) -> list[AnswerPiece]:
    """The pieces of the run's answer, in order and complete; `numbers` are of the memories that are marked."""
    answer, shown = run.response, memories_shown(run)
    found = references_of(answer, [item["text"] for _, item in shown], question=run.input)
    begins: dict[int, set[int]] = defaultdict(set)
    ends: dict[int, set[int]] = defaultdict(set)
    for (_, item), reference in zip(shown, found, strict=True):
        number = numbers.get((item["type"], item["id"]))
        for start, end in _joined(answer, reference.spans) if number else ():
            begins[start].add(number or 0)
            ends[end].add(number or 0)
    open_marks: set[int] = set()
    pieces: list[AnswerPiece] = []
    for start, end in pairwise(sorted({0, len(answer), *begins, *ends})):
        open_marks = (open_marks - ends[start]) | begins[start]
        pieces.append(AnswerPiece(answer[start:end], tuple(sorted(open_marks)), tuple(sorted(begins[start]))))
    return pieces


def _joined(text: str, spans: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        between = text[joined[-1][1] : start] if joined else ""
        if joined and len(between) <= JOINED_CHARACTERS and "\n" not in between:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
