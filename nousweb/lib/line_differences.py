"""What differs between two lines: words, and the changed characters of long words. Pure.

A word is a run of letters and digits; a sign of a script that is written without spaces, and a part of an identifier,
is a word of its own. An accent, a joined emoji or a flag is never torn apart.
"""

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import groupby, pairwise
from typing import Literal

from rapidfuzz.distance import Indel, LCSseq, Postfix, Prefix

Opcode = tuple[str, int, int, int, int]
"""As those of difflib: "equal" or another word, and the ranges on the old and on the new side."""
Match = Callable[[Sequence[str], Sequence[str]], Sequence[Opcode]]

# Pairs of equal items that one alignment may weigh against each other; 600 words of prose have about 3,000.
MAX_PAIRS = 20_000
# A long sequence is cut after one item of so many, chosen by the items before the cut: so equal stretches of both sides
# are cut at the same places.
_CUT, _WINDOW = 32, 8


def alignment(old: Sequence[str], new: Sequence[str], match: Match, *, limit: int) -> list[Opcode]:
    """The opcodes that turn `old` into `new`.

    1. Set aside what both begin and end with.
    2. Align the rest by `match` if it has at most `limit` pairs of items.
    3. Else align pieces of it, and then the items inside the pieces that differ.
    """
    return list(_joined(_aligned(old, new, match, limit, pieces=True)))


def _aligned(old: Sequence[str], new: Sequence[str], match: Match, limit: int, *, pieces: bool) -> Iterator[Opcode]:
    head = Prefix.similarity(old, new)
    tail = Postfix.similarity(old[head:], new[head:])
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    pairs = len(old_middle) * len(new_middle)
    if head:
        yield "equal", 0, head, 0, head
    if pairs and pairs <= limit:
        yield from _moved(match(old_middle, new_middle), head, head)
    elif pairs and pieces:
        yield from _moved(_by_pieces(old_middle, new_middle, match, limit), head, head)
    elif old_middle or new_middle:
        yield "replace", head, len(old) - tail, head, len(new) - tail
    if tail:
        yield "equal", len(old) - tail, len(old), len(new) - tail, len(new)


def _by_pieces(old: Sequence[str], new: Sequence[str], match: Match, limit: int) -> Iterator[Opcode]:
    """Opcodes of long sequences; a differing stretch of more than `limit` pairs counts as replaced."""
    old_ends, new_ends = _cuts(old), _cuts(new)
    old_pieces, new_pieces = _pieces(old, old_ends), _pieces(new, new_ends)
    for tag, *places in _aligned(old_pieces, new_pieces, longest_matches, 25_000_000, pieces=False):
        a, b, c, d = old_ends[places[0]], old_ends[places[1]], new_ends[places[2]], new_ends[places[3]]
        if tag == "equal":
            yield tag, a, b, c, d
        else:
            yield from _moved(_aligned(old[a:b], new[c:d], match, limit, pieces=False), a, c)


def _cuts(items: Sequence[str]) -> list[int]:
    """The places where the pieces of a sequence begin, and its end."""
    windows = ("\0".join(items[place - _WINDOW : place]) for place in range(_WINDOW, len(items)))
    cuts = (
        place
        for place, window in enumerate(windows, _WINDOW)
        if zlib.crc32(window.encode(errors="replace")) % _CUT == 0
    )
    return [0, *cuts, len(items)]


def _pieces(items: Sequence[str], ends: Sequence[int]) -> list[str]:
    return ["\0".join(items[begin:end]) for begin, end in pairwise(ends)]


def _moved(opcodes: Iterable[Opcode], old: int, new: int) -> Iterator[Opcode]:
    for tag, old_from, old_to, new_from, new_to in opcodes:
        yield tag, old + old_from, old + old_to, new + new_from, new + new_to


def _joined(opcodes: Iterator[Opcode]) -> Iterator[Opcode]:
    """Opcodes of which no two equal ones, and no two others, follow each other."""
    for equal, run in groupby(opcodes, key=lambda each: each[0] == "equal"):
        first, *more = run
        last = more[-1] if more else first
        yield "equal" if equal else "replace", first[1], last[2], first[3], last[4]


def longest_matches(old: Sequence[str], new: Sequence[str]) -> Sequence[Opcode]:
    """The opcodes of difflib, which reads well for lines and words.

    Items that pair up too often, as repeated ones do, are not used to align the two sides, the most repeated first:
    matching every repetition with every other one takes cubic time.
    """
    in_old, in_new = Counter(old), Counter(new)
    pairs = {item: times * in_old[item] for item, times in in_new.items()}
    total = sum(pairs.values())
    repeated = set()
    for item in sorted(pairs, key=pairs.__getitem__, reverse=True):
        if total <= MAX_PAIRS or pairs[item] <= 1:
            break
        repeated.add(item)
        total -= pairs[item]
    return SequenceMatcher(repeated.__contains__ if repeated else None, old, new, autojunk=False).get_opcodes()


def common_subsequence(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    """The opcodes that keep most items, for the characters of a long word."""
    opcodes = LCSseq.opcodes(old, new)
    return [(opcode.tag, opcode.src_start, opcode.src_end, opcode.dest_start, opcode.dest_end) for opcode in opcodes]


SpanKind = Literal["equal", "added", "removed"]

# Pairs of words, and of characters of long words, that one difference may compare.
WORD_BUDGET = 4_000_000
CHARACTER_BUDGET = 400_000_000
MAX_CHARACTER_PAIRS = 100_000_000

LONG_WORD = 12
"""Characters from which on a word is marked by its changed characters."""
# Of a long word at least this share is kept, in runs of so many characters; else it is another word.
_MIN_KEPT, _MIN_RUN = 0.5, 3
# Of two long words of random characters about 0.3 are equal in order.
_SAME_LONG_WORD = 0.6
_COMPARED = 4_000

# Thai, Lao, Tibetan, Burmese, Khmer, Hangul, kana and the ideographs: no spaces between their words.
_SPACELESS = (
    "\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_FLAG_LETTERS = "\U0001f1e6-\U0001f1ff"


@dataclass(frozen=True, slots=True)
class DiffSpan:
    """A piece of one line. ``added`` occurs only on the new side, ``removed`` only on the old."""

    text: str
    kind: SpanKind = "equal"


Spans = tuple[DiffSpan, ...]


@dataclass(slots=True)
class Budget:
    """The comparisons that are left for the lines of one difference."""

    words: int = WORD_BUDGET
    characters: int = CHARACTER_BUDGET


class Line:
    """A line with its words, to be compared with others."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = Counter(_patterns()[0].findall(text[:_COMPARED]))
        self.longest_word = max(map(len, self.words), default=0)
        self.closed_up = "".join(text.split())

    def likeness(self, other: "Line", budget: Budget) -> float:
        """How much two lines have in common, from 0 to 1: their words, their beginning and end, or long words."""
        if self.closed_up == other.closed_up:
            return 1.0
        total = self.words.total() + other.words.total()
        shared = 2 * (self.words & other.words).total() / total if total else 0.0
        shorter, longer = sorted((len(self.text), len(other.text)))
        if longer < LONG_WORD:
            return shared
        ends = Prefix.similarity(self.text, other.text) + Postfix.similarity(self.text, other.text)
        shared = max(shared, min(ends, shorter) / longer)
        begins = self.text[:_COMPARED], other.text[:_COMPARED]
        cost, half = len(begins[0]) * len(begins[1]), max(map(len, begins)) / 2
        if shared < _MIN_KEPT and min(self.longest_word, other.longest_word) > half and cost <= budget.characters:
            budget.characters -= cost
            kept = Indel.normalized_similarity(*begins)
            shared = kept if kept >= _SAME_LONG_WORD else shared
        return shared


def line_spans(old: str, new: str, budget: Budget) -> Spans:
    """Both lines as one: what goes stands before what comes in its place."""
    spans: list[DiffSpan] = []
    for is_equal, run in groupby(filter(any, _pieces_of(old, new, budget)), key=lambda piece: piece[0] == piece[1]):
        olds, news = map("".join, zip(*run, strict=True))
        spans += [DiffSpan(olds)] if is_equal else [DiffSpan(olds, "removed"), DiffSpan(news, "added")]
    return tuple(span for span in spans if span.text)


def _pieces_of(old: str, new: str, budget: Budget) -> Iterator[tuple[str, str]]:
    """The texts of both lines in order, those that are equal or take the place of each other beside each other."""
    old_words, new_words = _Words(old), _Words(new)
    opcodes = alignment(old_words.texts, new_words.texts, longest_matches, limit=min(budget.words, WORD_BUDGET))
    budget.words -= sum((b - a) * (d - c) for tag, a, b, c, d in opcodes if tag != "equal")
    # Words alone are aligned: blanks are alike everywhere and would align anything with anything.
    for tag, old_from, old_to, new_from, new_to in opcodes:
        if tag == "equal":
            for offset in range(old_to - old_from):
                yield old_words.blanks[old_from + offset], new_words.blanks[new_from + offset]
                yield old_words.texts[old_from + offset], new_words.texts[new_from + offset]
        elif old_from < old_to and new_from < new_to:
            yield old_words.blanks[old_from], new_words.blanks[new_from]
            yield from _inside(old_words.inside(old_from, old_to), new_words.inside(new_from, new_to), budget)
        else:
            yield old_words.before(old_from, old_to), new_words.before(new_from, new_to)
    yield old_words.blanks[-1], new_words.blanks[-1]


class _Words:
    """The words of a line, and the blanks before each of them and after the last one."""

    def __init__(self, line: str) -> None:
        self.texts: list[str] = []
        self.blanks: list[str] = []
        end = 0
        for found in _patterns()[0].finditer(line):
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


def _inside(old: str, new: str, budget: Budget) -> Iterator[tuple[str, str]]:
    """Pieces of what replaced each other: one, or those of a long word that was edited."""
    respaced = "".join(old.split()) == "".join(new.split())
    edited = max(len(old), len(new)) >= LONG_WORD and not any(map(str.isspace, old + new))
    olds, news = (_patterns()[1].findall(text) for text in (old, new)) if respaced or edited else ([], [])
    opcodes = alignment(olds, news, common_subsequence, limit=min(budget.characters, MAX_CHARACTER_PAIRS))
    budget.characters -= sum((b - a) * (d - c) for tag, a, b, c, d in opcodes if tag != "equal")
    opcodes = opcodes if respaced else _without_short_runs(opcodes)
    kept = sum(old_to - old_from for tag, old_from, old_to, _, _ in opcodes if tag == "equal")
    if not kept or kept < _MIN_KEPT * max(len(olds), len(news)):
        yield old, new
        return
    for _, old_from, old_to, new_from, new_to in opcodes:
        yield "".join(olds[old_from:old_to]), "".join(news[new_from:new_to])


def _without_short_runs(opcodes: list[Opcode]) -> list[Opcode]:
    """Opcodes in which a few equal characters between two changes belong to the change."""
    last = len(opcodes) - 1
    marked: Iterator[Opcode] = (
        ("replace", *each[1:]) if 0 < place < last and each[2] - each[1] < _MIN_RUN else each
        for place, each in enumerate(opcodes)
    )
    return list(_joined(marked))


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns of a word, and of a character with its marks."""
    marks = "".join(chr(code) for code in range(0x300, 0x1E950) if unicodedata.category(chr(code))[0] == "M")
    marks += "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef"
    mark = f"[{marks}\u200c]"
    letter = f"[^\\W_{_SPACELESS}]"
    joined = "(?:" + mark + "|\u200d(?:[^\\w\\s])?)*"
    flag = f"[{_FLAG_LETTERS}]{{2}}"
    word = f"{flag}|[{_SPACELESS}]{mark}*|{letter}(?:{letter}|{mark}|\u200d)*|(?:[^\\w\\s]|_){joined}"
    return re.compile(word), re.compile(f"{flag}|(?s:.){joined}")
