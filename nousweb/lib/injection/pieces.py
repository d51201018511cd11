"""Scan texts that are read one after another, such as the items of a session or the lines of a prompt: each by itself,
and those that read like an instruction only together.

Results are cached by the hash of the text, since prompts repeat most of their lines.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from typing import TypeVar

from nousweb.lib.injection.scan import DISGUISE, RULES, THRESHOLDS, InjectionMatch, features_in, fold_text, scan_text
from nousweb.lib.readable_text import readable_text

CACHED = 20_000
"""Number of texts whose results are cached."""
TOGETHER = 4
"""Maximum number of texts that are read as one."""
SEAM_WORDS = 5
"""Of the first and the last text so many words, those beside the others, count: whole notes, of which the first says
one thing and the last another, are no instruction. A text between them has no more words."""
MAX_TEXT = 2_000
"""A longer text continues no other one."""

# What a prompt puts before a memory's own words.
_LEAD = re.compile(r"(?:- )?(?:\([^()]{0,200}\) )?(?:\[[^\[\]]{0,200}\] )?(?:(?:Open|Current task|Current frame): )?")
_ENDS = (".", "!", "?", "。", "！", "？")


@dataclass(frozen=True, slots=True)
class PieceMatch:
    """The positions of the texts that read like an instruction, together if they are several."""

    places: tuple[int, ...]
    match: InjectionMatch


@dataclass(frozen=True, slots=True)
class _Piece:
    words: str
    features: frozenset[str]
    is_open: bool
    continues: bool


_Cached = TypeVar("_Cached")
_matches: dict[bytes, InjectionMatch | None] = {}
_pieces: dict[bytes, _Piece | None] = {}


def scan_cached(text: str, trust: str) -> InjectionMatch | None:
    """As `scan_text`, from the cache where possible."""
    return _cached(_matches, f"{trust} {THRESHOLDS.get(trust)}\n{text}", lambda: scan_text(text, trust))


def _cached(cache: dict[bytes, _Cached], name: str, made: Callable[[], _Cached]) -> _Cached:
    key = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    try:
        return cache[key]
    except KeyError:
        pass
    value = made()
    if len(cache) >= CACHED:
        cache.clear()
    cache[key] = value
    return value


def scan_pieces(texts: Sequence[str], trusts: Sequence[str]) -> list[PieceMatch]:
    """The texts that read like an instruction, by themselves or with others of `texts`; each text at most once.

    `trusts` are their trust classes; what people wrote has none ("") and is not scanned. A text continues another one
    that lacks its full stop: its neighbours do, and from further away those that do not begin a sentence.
    """
    found = []
    pieces: dict[int, _Piece] = {}
    for place, (text, trust) in enumerate(zip(texts, trusts, strict=True)):
        if not trust:
            continue
        if match := scan_cached(text, trust):
            found.append(PieceMatch((place,), match))
        elif piece := _cached(_pieces, text, partial(_piece, text)):
            pieces[place] = piece
    if not any(piece.is_open for piece in pieces.values()):
        return found
    taken: set[int] = set()
    # Few texts before many: what stands between two halves is not part of them.
    for places in sorted(_combinations(list(pieces), pieces), key=len):
        if taken.intersection(places):
            continue
        trust = min((trusts[place] for place in places), key=lambda one: THRESHOLDS.get(one, 0.0))
        features = frozenset().union(*(pieces[place].features for place in places))
        if any(len(pieces[place].words.split()) > SEAM_WORDS for place in places[1:-1]):
            continue
        if len(places) > 2 and _highest_score(features) < THRESHOLDS.get(trust, 0.0) - DISGUISE:
            continue
        parts = [pieces[place].words for place in places]
        seam = " ".join([*parts[0].split()[-SEAM_WORDS:], *parts[1:-1], *parts[-1].split()[:SEAM_WORDS]])
        if match := scan_cached(seam, trust):
            taken.update(places)
            found.append(PieceMatch(places, match))
    return found


def _combinations(places: Sequence[int], pieces: dict[int, _Piece]) -> Iterator[tuple[int, ...]]:
    """The positions of texts that may be one sentence, in their order."""
    for start in range(len(places)):
        for end in range(start + 1, min(start + TOGETHER, len(places))):
            if not pieces[places[end - 1]].is_open:
                break
            yield tuple(places[start : end + 1])
    telling = [place for place in places if pieces[place].features]
    firsts = [place for place in telling if pieces[place].is_open]
    nexts = [place for place in telling if pieces[place].continues]
    for first in firsts:
        after = [place for place in nexts if place > first]
        for size in range(1, min(TOGETHER, len(after) + 1)):
            for others in combinations(after, size) if size == 1 else _runs(after, size):
                if all(pieces[place].is_open for place in others[:-1]) and _tells(first, others, pieces):
                    yield (first, *others)


def _runs(places: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    return (tuple(places[start : start + size]) for start in range(len(places) - size + 1))


def _tells(first: int, others: Sequence[int], pieces: dict[int, _Piece]) -> bool:
    """Whether the features of these texts may be enough together, by the lowest threshold."""
    features = pieces[first].features.union(*(pieces[place].features for place in others))
    return _highest_score(features) >= min(THRESHOLDS.values()) - DISGUISE


def _piece(text: str) -> _Piece | None:
    """The features of a text without its label in the prompt; None if no other text can continue it."""
    if len(text) > MAX_TEXT:
        return None
    words = text[lead.end() :] if (lead := _LEAD.match(text)) else text
    words = words.strip()
    if not words:
        return None
    read = readable_text(words)
    features = features_in(fold_text(read.text if read else words))
    return _Piece(words, features, not words.endswith(_ENDS), not words[0].isupper())


@lru_cache(maxsize=4_096)
def _highest_score(features: frozenset[str]) -> float:
    return sum(rule.weight for rule in RULES if rule.features <= features)
