"""Shortening by extraction: whole sentences of the original, the most telling ones, in their own order."""

import re

from nousweb.lib.token_estimate import estimate_tokens, truncate_to_tokens
from nousweb.lib.word_overlap import words_of

_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)|[.!?\n]+")
LEAD_BONUS = 0.15
"""The first sentence of a text usually names its topic."""


def compress(text: str, query: str, *, max_tokens: int, min_share: float) -> str | None:
    """`text` in at most `max_tokens`, by its sentences most like `query`; None if that would be too little.

    At least `min_share` (0 to 1) of the characters must stay, else the item is better left out as a whole.
    """
    if estimate_tokens(text) <= max_tokens:
        return text
    sentences = [match.group(0).strip() for match in _SENTENCE.finditer(text) if match.group(0).strip()]
    if len(sentences) < 2:
        short = truncate_to_tokens(text, max_tokens)
        return short if short and len(short) >= min_share * len(text) else None
    wanted = words_of(query)
    ranked = sorted(
        range(len(sentences)),
        key=lambda place: (-_telling(sentences[place], wanted, first=place == 0), place),
    )
    kept: set[int] = set()
    for place in ranked:
        if estimate_tokens(_join(sentences, kept | {place})) <= max_tokens:
            kept.add(place)
    short = _join(sentences, kept)
    return short if kept and len(short) >= min_share * len(text) else None


def _telling(sentence: str, wanted: frozenset[str], *, first: bool) -> float:
    words = words_of(sentence)
    return (len(words & wanted) / len(wanted) if wanted else 0.0) + (LEAD_BONUS if first else 0.0)


def _join(sentences: list[str], kept: set[int]) -> str:
    parts: list[str] = []
    for place in sorted(kept):
        if parts and place - 1 not in kept:
            parts.append("…")
        parts.append(sentences[place])
    return " ".join(parts)
