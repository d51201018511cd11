"""The answer that a prompt led to, cut where it refers to a memory of that prompt."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from context.feedback.content_words import content_words
from context.feedback.reference_detector import references_of
from context.models import ContextRun, MemoryUsage
from context.services.agent_response import memories_shown

JOINED_CHARACTERS = 12
"""Marks of one memory with no more than this between them, on one line and without another word of content, are one."""


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A stretch of the answer. `numbers` are of the memories it refers to, `begins` of those whose mark begins here."""

    text: str
    numbers: tuple[int, ...] = ()
    begins: tuple[int, ...] = ()


def answer_pieces(run: ContextRun, uses: Iterable[MemoryUsage]) -> list[AnswerPiece]:
    """The pieces of the run's answer, in order and complete; the memories that are marked have numbers from 1 on."""
    answer, marked = run.response, list(uses)
    begins: dict[int, set[int]] = defaultdict(set)
    ends: dict[int, set[int]] = defaultdict(set)
    for number, spans in enumerate(_spans(run, marked), 1):
        # An answer may have been cut since.
        for start, end in _joined(answer, [span for span in spans if span[1] <= len(answer)]):
            begins[start].add(number)
            ends[end].add(number)
    open_marks: set[int] = set()
    pieces: list[AnswerPiece] = []
    for start, end in pairwise(sorted({0, len(answer), *begins, *ends})):
        open_marks = (open_marks - ends[start]) | begins[start]
        pieces.append(AnswerPiece(answer[start:end], tuple(sorted(open_marks)), tuple(sorted(begins[start]))))
    return pieces


def _spans(run: ContextRun, uses: Sequence[MemoryUsage]) -> list[Sequence[Sequence[int]]]:
    """The spans of each reference: as recorded with the answer, or from its words if they were not recorded."""
    if all(use.spans is not None for use in uses):
        return [use.spans or () for use in uses]
    shown = memories_shown(run)
    found = references_of(run.response, [item["text"] for _, item in shown], question=run.input)
    spans = {(item["type"], item["id"]): reference.spans for (_, item), reference in zip(shown, found, strict=True)}
    return [spans.get((use.item_type, use.item_id), ()) if use.spans is None else use.spans for use in uses]


def _joined(text: str, spans: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        between = text[joined[-1][1] : start] if joined else ""
        if joined and len(between) <= JOINED_CHARACTERS and "\n" not in between and not content_words(between):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
