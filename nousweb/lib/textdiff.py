"""Differences between two texts, first by line, then by word inside a changed line.

The result is plain data for a template: it holds no markup and nothing is escaped yet.

Run time is bounded, because the texts come from agents: what pairing lines and comparing their words may cost is
limited (PAIR_BUDGET, and the budgets of `line_differences`). What is beyond is marked as a whole.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

from nousweb.lib.line_differences import Budget, DiffSpan, Line, alignment, line_spans, longest_matches

MAX_LINE_PAIRS = 25_000_000

# Comparisons that one diff may spend on pairing lines.
PAIR_BUDGET = 40_000

# Two lines are the same line, edited, when they share at least this part of their words.
PAIR_SIMILARITY = 0.4

PARAGRAPH = 80
"""Characters from which on a line is one."""

RowKind = Literal["equal", "added", "removed", "changed", "gap"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line on either or both sides, numbered from 1; or a ``gap`` of hidden equal rows."""

    kind: RowKind
    old_no: int | None = None
    new_no: int | None = None
    spans: tuple[DiffSpan, ...] = ()
    hidden_rows: "tuple[Row, ...]" = ()

    @property
    def old_spans(self) -> tuple[DiffSpan, ...]:
        return tuple(span for span in self.spans if span.kind != "added")

    @property
    def new_spans(self) -> tuple[DiffSpan, ...]:
        return tuple(span for span in self.spans if span.kind != "removed")


@dataclass(frozen=True, slots=True)
class TextDiff:
    """Rows from top to bottom. A changed line counts once as added and once as removed.

    Joining the spans of each old row, and the rows by a line feed, gives the old text with
    its line ends normalised; the same holds for the new side.
    """

    rows: tuple[Row, ...]
    added: int
    removed: int
    identical: bool

    @property
    def lines(self) -> tuple[Row, ...]:
        """All rows, those of gaps too."""
        return tuple(line for row in self.rows for line in row.hidden_rows or (row,))

    @property
    def is_prose(self) -> bool:
        """Whether it is read best by its words: a line that is edited is a whole paragraph."""
        return any(len(span_text(row.new_spans)) >= PARAGRAPH for row in self.rows if row.kind == "changed")


def span_text(spans: Iterable[DiffSpan]) -> str:
    return "".join(span.text for span in spans)


def diff_texts(old: str, new: str, *, context: int = 3) -> TextDiff:
    """Compare two texts, keeping ``context`` unchanged lines around each change.

    1. Set aside the lines that both texts begin and end with.
    2. Align the rest by line.
    3. Inside a replaced block, pair the lines that resemble each other, in order.
    4. Mark the words that differ inside each pair.
    5. Fold long unchanged runs into gaps.
    """
    old_lines, new_lines = _lines(old), _lines(new)
    if old_lines == new_lines and old != new:
        # They differ in the ends of their lines alone, which then belong to the lines.
        old_lines, new_lines = old.split("\n"), new.split("\n")
    builder = _RowBuilder(old_lines, new_lines)
    for tag, old_from, old_to, new_from, new_to in alignment(
        old_lines, new_lines, longest_matches, limit=MAX_LINE_PAIRS
    ):
        if tag == "equal":
            builder.equal(range(old_from, old_to), range(new_from, new_to))
        else:
            builder.block(range(old_from, old_to), range(new_from, new_to))
    rows = builder.rows
    return TextDiff(
        rows=folded(rows, max(context, 0)),
        added=sum(row.kind in ("added", "changed") for row in rows),
        removed=sum(row.kind in ("removed", "changed") for row in rows),
        identical=all(row.kind == "equal" for row in rows),
    )


def _lines(text: str) -> list[str]:
    """Lines without their ends. An empty text has no line at all."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if text else []


class _RowBuilder:
    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        self.old, self.new = old, new
        self.rows: list[Row] = []
        self.pair_budget = PAIR_BUDGET
        self.budget = Budget()

    def equal(self, old: range, new: range) -> None:
        self.rows += [Row("equal", at + 1, to + 1, (DiffSpan(self.old[at]),)) for at, to in zip(old, new, strict=True)]

    def replaced(self, old: range, new: range) -> None:
        self.rows += [Row("removed", at + 1, None, (DiffSpan(self.old[at], "removed"),)) for at in old]
        self.rows += [Row("added", None, at + 1, (DiffSpan(self.new[at], "added"),)) for at in new]

    def block(self, old_range: range, new_range: range) -> None:
        """A run of lines that were replaced, removed or added."""
        old_at, new_at = old_range.start, new_range.start
        for old_index, new_index in self._pairs(old_range, new_range):
            self.replaced(range(old_at, old_index), range(new_at, new_index))
            spans = line_spans(self.old[old_index], self.new[new_index], self.budget)
            self.rows.append(Row("changed", old_index + 1, new_index + 1, spans))
            old_at, new_at = old_index + 1, new_index + 1
        self.replaced(range(old_at, old_range.stop), range(new_at, new_range.stop))

    def _pairs(self, old_range: range, new_range: range) -> list[tuple[int, int]]:
        """The in-order pairing with the greatest total similarity; of too many lines, each with that of its place."""
        rows, columns = len(old_range), len(new_range)
        old_lines = [Line(text) for text in self.old[old_range.start : old_range.stop]]
        new_lines = [Line(text) for text in self.new[new_range.start : new_range.stop]]
        if rows * columns > self.pair_budget:
            return [
                (old_range[place], new_range[place])
                for place, (old, new) in enumerate(zip(old_lines, new_lines, strict=False))
                if old.likeness(new, self.budget) >= PAIR_SIMILARITY
            ]
        self.pair_budget -= rows * columns
        likeness = [[old.likeness(new, self.budget) for new in new_lines] for old in old_lines]
        best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
        for i in range(rows - 1, -1, -1):
            for j in range(columns - 1, -1, -1):
                best[i][j] = max(best[i + 1][j], best[i][j + 1])
                if likeness[i][j] >= PAIR_SIMILARITY:
                    best[i][j] = max(best[i][j], likeness[i][j] + best[i + 1][j + 1])
        pairs: list[tuple[int, int]] = []
        i = j = 0
        while i < rows and j < columns:
            if best[i][j] == best[i + 1][j]:
                i += 1
            elif best[i][j] == best[i][j + 1]:
                j += 1
            else:
                pairs.append((old_range[i], new_range[j]))
                i, j = i + 1, j + 1
        return pairs


def folded(rows: Sequence[Row], context: int) -> tuple[Row, ...]:
    """Replace long runs of equal rows by gaps; a text without any change stays unfolded."""
    changes = [place for place, row in enumerate(rows) if row.kind != "equal"]
    near: set[int] = set()
    end = 0
    for change in changes:
        # Each place once: a client may ask for the whole text around each of thousands of changes.
        near.update(range(max(end, change - context), min(change + context + 1, len(rows))))
        end = change + context + 1
    kept: list[Row] = []
    for is_near, run in groupby(range(len(rows)), key=lambda place: not near or place in near):
        lines = tuple(rows[place] for place in run)
        # Folding a single line would take as much room as showing it.
        kept += lines if is_near or len(lines) == 1 else [Row("gap", hidden_rows=lines)]
    return tuple(kept)


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
        # Two changes collide that claim the same line, or one inserted between lines that the other changed.
        if any(hunk[0] < other[1] and other[0] < hunk[1] for other in first):
            return None
        beside = {line for other in first if other[:2] == hunk[:2] for line in other[2]}
        merged.append((hunk[0], hunk[1], tuple(line for line in hunk[2] if not line.strip() or line not in beside)))
    # Sorting is stable: of two insertions at one place, ours stands first. One before changed lines stands before them.
    merged.sort(key=lambda hunk: hunk[:2])
    for start, end, new in reversed(merged):
        lines[start:end] = new
    return "\n".join(lines)


def _hunks(base: list[str], edited: list[str]) -> list[_Hunk]:
    opcodes = SequenceMatcher(None, base, edited, autojunk=False).get_opcodes()
    return [(a, b, tuple(edited[c:d])) for tag, a, b, c, d in opcodes if tag != "equal"]
