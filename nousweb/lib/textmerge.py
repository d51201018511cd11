"""Merging two edits of one text, line by line."""

from difflib import SequenceMatcher

_Hunk = tuple[int, int, tuple[str, ...]]
"""The lines of the base from the first number up to the second become these."""


def merge_texts(base: str, ours: str, theirs: str) -> str | None:
    """`base` with the changes of both sides, or None where both changed the same lines.

    What both sides inserted at the same place is kept, `ours` first; a line that both have is there once. An
    insertion beside lines that the other side changed stands where it stood. Two first texts, on an empty base, are no
    insertions: they say the same thing in two ways as a rule.
    """
    if not base:
        return ours if ours == theirs else None
    lines = base.split("\n")
    first, second = _hunks(lines, ours.split("\n")), _hunks(lines, theirs.split("\n"))
    merged = list(first)
    for hunk in second:
        if hunk in first:
            continue
        if any(_collide(hunk, other) for other in first):
            return None
        beside = {line for other in first if other[:2] == hunk[:2] for line in other[2]}
        merged.append((hunk[0], hunk[1], tuple(line for line in hunk[2] if not line.strip() or line not in beside)))
    # Sorting is stable: of two insertions at one place, ours stands first. One before changed lines stands before them.
    merged.sort(key=lambda hunk: hunk[:2])
    for start, end, new in reversed(merged):
        lines[start:end] = new
    return "\n".join(lines)


def _collide(one: _Hunk, other: _Hunk) -> bool:
    """Whether two changes claim the same line of the base, or one is inserted between lines that the other changed."""
    return one[0] < other[1] and other[0] < one[1]


def _hunks(base: list[str], edited: list[str]) -> list[_Hunk]:
    opcodes = SequenceMatcher(None, base, edited, autojunk=False).get_opcodes()
    return [(a, b, tuple(edited[c:d])) for tag, a, b, c, d in opcodes if tag != "equal"]
