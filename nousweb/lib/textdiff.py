"""Differences between two texts, first by line, then by word inside a changed line.

The result is plain data for a template: it holds no markup and nothing is escaped yet.

Run time is bounded, because the texts come from agents:

- More than ``MAX_WORD_LINES`` lines on either side, a line longer than ``MAX_WORD_LINE``
  characters, or a used-up word budget: lines are marked, words inside them are not.
- More than ``MAX_MATCH_LINES`` differing lines on either side: they become one removed
  block and one added block.
- Lines or words that pair up too often, as repeated ones do, are not used to align the two
  sides, the most repeated first: matching every repetition with every other one takes cubic time.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

MAX_WORD_LINES = 2_000
MAX_WORD_LINE = 4_000
MAX_MATCH_LINES = 5_000

# Comparisons that one diff may spend on pairing lines and on matching their words.
PAIR_BUDGET = 40_000
WORD_BUDGET = 4_000_000

# Two lines are the same line, edited, when they share at least this part of their words.
PAIR_SIMILARITY = 0.4

# Pairs of equal lines or words that one alignment may weigh against each other; 600 words of prose have about 3,000.
MAX_PAIRS = 20_000

_WORD = re.compile(r"\w+|[^\w\s]")

_Opcode = tuple[str, int, int, int, int]

SpanKind = Literal["equal", "added", "removed"]
RowKind = Literal["equal", "added", "removed", "changed", "gap"]


@dataclass(frozen=True, slots=True)
class DiffSpan:
    """A piece of one line. ``added`` occurs only on the new side, ``removed`` only on the old."""

    text: str
    kind: SpanKind = "equal"


@dataclass(frozen=True, slots=True)
class Row:
    """One line on either or both sides, numbered from 1; or a ``gap`` of hidden equal rows."""

    kind: RowKind
    old_no: int | None = None
    new_no: int | None = None
    old_spans: tuple[DiffSpan, ...] = ()
    new_spans: tuple[DiffSpan, ...] = ()
    hidden_rows: "tuple[Row, ...]" = ()


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


def diff_texts(old: str, new: str, *, context: int = 3) -> TextDiff:
    """Compare two texts, keeping ``context`` unchanged lines around each change.

    1. Set aside the lines that both texts begin and end with.
    2. Align the rest by line.
    3. Inside a replaced block, pair the lines that resemble each other, in order.
    4. Mark the words that differ inside each pair.
    5. Fold long unchanged runs into gaps.
    """
    old_lines, new_lines = _lines(old), _lines(new)
    words = max(len(old_lines), len(new_lines)) <= MAX_WORD_LINES
    builder = _RowBuilder(old_lines, new_lines, mark_words=words)
    for tag, old_from, old_to, new_from, new_to in _opcodes(old_lines, new_lines):
        if tag == "equal":
            for offset in range(old_to - old_from):
                builder.equal(old_from + offset, new_from + offset)
        else:
            builder.block(range(old_from, old_to), range(new_from, new_to))
    rows = builder.rows
    return TextDiff(
        rows=_folded(rows, max(context, 0)),
        added=sum(row.kind in ("added", "changed") for row in rows),
        removed=sum(row.kind in ("removed", "changed") for row in rows),
        identical=all(row.kind == "equal" for row in rows),
    )


def _lines(text: str) -> list[str]:
    """Lines without their ends. An empty text has no line at all."""
    if not text:
        return []
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[_Opcode]:
    """The opcodes of difflib, with the common start and end cut off before matching."""
    shorter = min(len(old), len(new))
    head = 0
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]

    opcodes: list[_Opcode] = []
    if head:
        opcodes.append(("equal", 0, head, 0, head))
    if old_middle and new_middle and max(len(old_middle), len(new_middle)) <= MAX_MATCH_LINES:
        for tag, old_from, old_to, new_from, new_to in _matcher(old_middle, new_middle).get_opcodes():
            opcodes.append((tag, head + old_from, head + old_to, head + new_from, head + new_to))
    elif old_middle or new_middle:
        opcodes.append(("replace", head, head + len(old_middle), head, head + len(new_middle)))
    if tail:
        opcodes.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return opcodes


def _matcher(old: Sequence[str], new: Sequence[str]) -> SequenceMatcher[str]:
    """A matcher that does not anchor on items repeated so often that it would crawl."""
    in_old, in_new = Counter(old), Counter(new)
    pairs = {item: times * in_old[item] for item, times in in_new.items()}
    total = sum(pairs.values())
    repeated = set()
    for item in sorted(pairs, key=pairs.__getitem__, reverse=True):
        if total <= MAX_PAIRS or pairs[item] <= 1:
            break
        repeated.add(item)
        total -= pairs[item]
    return SequenceMatcher(repeated.__contains__ if repeated else None, old, new, autojunk=False)


class _RowBuilder:
    def __init__(self, old: Sequence[str], new: Sequence[str], *, mark_words: bool) -> None:
        self.old, self.new = old, new
        self.rows: list[Row] = []
        self.mark_words = mark_words
        self.pair_budget = PAIR_BUDGET
        self.word_budget = WORD_BUDGET

    def equal(self, old_index: int, new_index: int) -> None:
        spans = (DiffSpan(self.old[old_index]),)
        self.rows.append(Row("equal", old_index + 1, new_index + 1, spans, spans))

    def removed(self, index: int) -> None:
        self.rows.append(Row("removed", index + 1, None, (DiffSpan(self.old[index], "removed"),)))

    def added(self, index: int) -> None:
        self.rows.append(Row("added", None, index + 1, (), (DiffSpan(self.new[index], "added"),)))

    def changed(self, old_index: int, new_index: int) -> None:
        old_spans, new_spans = self._word_spans(self.old[old_index], self.new[new_index])
        self.rows.append(Row("changed", old_index + 1, new_index + 1, old_spans, new_spans))

    def block(self, old_range: range, new_range: range) -> None:
        """A run of lines that were replaced, removed or added."""
        old_at, new_at = old_range.start, new_range.start
        for old_index, new_index in self._pairs(old_range, new_range):
            for index in range(old_at, old_index):
                self.removed(index)
            for index in range(new_at, new_index):
                self.added(index)
            self.changed(old_index, new_index)
            old_at, new_at = old_index + 1, new_index + 1
        for index in range(old_at, old_range.stop):
            self.removed(index)
        for index in range(new_at, new_range.stop):
            self.added(index)

    def _pairs(self, old_range: range, new_range: range) -> list[tuple[int, int]]:
        """The in-order pairing with the greatest total similarity."""
        cells = len(old_range) * len(new_range)
        if not self.mark_words or not cells or cells > self.pair_budget:
            return []
        self.pair_budget -= cells
        old_words = [_word_counts(self.old[index]) for index in old_range]
        new_words = [_word_counts(self.new[index]) for index in new_range]
        rows, columns = len(old_words), len(new_words)
        likeness = [[_similarity(a, b) for b in new_words] for a in old_words]
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

    def _word_spans(self, old: str, new: str) -> tuple[tuple[DiffSpan, ...], tuple[DiffSpan, ...]]:
        whole = (DiffSpan(old, "removed"),), (DiffSpan(new, "added"),)
        if max(len(old), len(new)) > MAX_WORD_LINE:
            return whole
        old_words, new_words = _Words(old), _Words(new)
        cost = len(old_words.texts) * len(new_words.texts)
        if cost > self.word_budget:
            return whole
        self.word_budget -= cost

        old_spans: list[DiffSpan] = []
        new_spans: list[DiffSpan] = []

        def put(old_text: str, new_text: str, *, equal: bool) -> None:
            _append(old_spans, old_text, "equal" if equal else "removed")
            _append(new_spans, new_text, "equal" if equal else "added")

        def put_blanks(old_text: str, new_text: str) -> None:
            put(old_text, new_text, equal=old_text == new_text)

        # Words alone are aligned: blanks are alike everywhere and would align anything with anything.
        for tag, old_from, old_to, new_from, new_to in _opcodes(old_words.texts, new_words.texts):
            if tag == "equal":
                for offset in range(old_to - old_from):
                    put_blanks(old_words.blanks[old_from + offset], new_words.blanks[new_from + offset])
                    word = old_words.texts[old_from + offset]
                    put(word, word, equal=True)
                continue
            if old_from < old_to and new_from < new_to:
                put_blanks(old_words.blanks[old_from], new_words.blanks[new_from])
                put(old_words.inside(old_from, old_to), new_words.inside(new_from, new_to), equal=False)
            else:
                put(old_words.before(old_from, old_to), new_words.before(new_from, new_to), equal=False)
        put_blanks(old_words.blanks[-1], new_words.blanks[-1])
        return tuple(old_spans), tuple(new_spans)


class _Words:
    """The words of a line, and the blanks before each of them and after the last one."""

    def __init__(self, line: str) -> None:
        self.texts: list[str] = []
        self.blanks: list[str] = []
        end = 0
        for found in _WORD.finditer(line):
            self.texts.append(found.group())
            self.blanks.append(line[end : found.start()])
            end = found.end()
        self.blanks.append(line[end:])

    def before(self, start: int, stop: int) -> str:
        """These words, each with the blanks before it."""
        return "".join(
            blank + word for blank, word in zip(self.blanks[start:stop], self.texts[start:stop], strict=True)
        )

    def inside(self, start: int, stop: int) -> str:
        """These words with the blanks between them."""
        return self.before(start, stop)[len(self.blanks[start]) :]


def _append(spans: list[DiffSpan], text: str, kind: SpanKind) -> None:
    if not text:
        return
    if spans and spans[-1].kind == kind:
        spans[-1] = DiffSpan(spans[-1].text + text, kind)
    else:
        spans.append(DiffSpan(text, kind))


def _word_counts(line: str) -> Counter[str]:
    return Counter(_WORD.findall(line[:MAX_WORD_LINE]))


def _similarity(old: Counter[str], new: Counter[str]) -> float:
    """The share of words that two lines have in common, from 0 to 1 (Dice)."""
    total = old.total() + new.total()
    return 2 * (old & new).total() / total if total else 0.0


def _folded(rows: Sequence[Row], context: int) -> tuple[Row, ...]:
    """Replace long runs of equal rows by gaps; a text without any change stays unfolded."""
    changes = [index for index, row in enumerate(rows) if row.kind != "equal"]
    if not changes:
        return tuple(rows)
    folded: list[Row] = []
    position = 0
    for change in [*changes, None]:
        run_end = len(rows) if change is None else change
        hide_from = position + context if position else 0
        hide_to = len(rows) if change is None else change - context
        # Folding a single line would take as much room as showing it.
        if hide_to - hide_from > 1:
            folded.extend(rows[position:hide_from])
            folded.append(Row("gap", hidden_rows=tuple(rows[hide_from:hide_to])))
            folded.extend(rows[hide_to:run_end])
        else:
            folded.extend(rows[position:run_end])
        if change is not None:
            folded.append(rows[change])
            position = change + 1
    return tuple(folded)
