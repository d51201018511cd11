"""Merging two edits of one text, line by line."""

from difflib import SequenceMatcher
from itertools import pairwise


def merge_texts(base: str, ours: str, theirs: str) -> str | None:
    """`base` with the changed lines of both sides, or None where they touch the same place."""
    lines = base.split("\n")
    hunks = sorted({*_hunks(lines, ours.split("\n")), *_hunks(lines, theirs.split("\n"))})
    for one, other in pairwise(hunks):
        # Neighbouring changes count as one place: which of two inserts comes first is not for us to say.
        if other[0] <= one[1]:
            return None
    for start, end, new in reversed(hunks):
        lines[start:end] = new
    return "\n".join(lines)


def _hunks(base: list[str], edited: list[str]) -> list[tuple[int, int, tuple[str, ...]]]:
    opcodes = SequenceMatcher(None, base, edited, autojunk=False).get_opcodes()
    return [(a, b, tuple(edited[c:d])) for tag, a, b, c, d in opcodes if tag != "equal"]
