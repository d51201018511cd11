"""Alignment of two sequences of texts, lines or words or characters, in bounded time. Pure."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, pairwise

from rapidfuzz.distance import LCSseq

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
    shorter = min(len(old), len(new))
    head = 0
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
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
    return [(one.tag, one.src_start, one.src_end, one.dest_start, one.dest_end) for one in opcodes]
