"""Shortening by extraction: whole sentences of the original, the most telling ones, in their own order; of code, tables
and steps the first lines."""

import re

from nousweb.lib.code_lines import is_structured
from nousweb.lib.token_estimate import estimate_tokens, truncate_to_tokens
from nousweb.lib.word_overlap import words_of

_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)|[.!?\n]+")
CUT = "…"
LEAD_BONUS = 0.15
"""The first sentence of a text usually names its topic."""


def compress(text: str, query: str, *, max_tokens: int, min_share: float) -> str | None:
    """`text` in at most `max_tokens`, by its sentences most like `query`; None if that would be too little.

    At least `min_share` (0 to 1) of the characters must stay, else the item is better left out as a whole.
    """
    if estimate_tokens(text) <= max_tokens:
        return text
    if is_structured(text):
        short = _first_lines(text, max_tokens)
        return short if short and len(short) >= min_share * len(text) else None
    sentences: list[str] = []
    for match in _SENTENCE.finditer(text):
        if sentence := match[0].strip():
            sentences.append(sentence)
        if sentences and match[0].endswith("\n"):
            sentences[-1] = f"{sentences[-1].rstrip()}\n"
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


def _first_lines(text: str, max_tokens: int) -> str:
    """The first whole lines of `text` that fit; "" if none does."""
    lines = text.split("\n")
    kept: list[str] = []
    for line in lines:
        if estimate_tokens("\n".join([*kept, line, CUT])) > max_tokens:
            break
        kept.append(line)
    return "\n".join([*kept, CUT]) if kept else ""


def _join(sentences: list[str], kept: set[int]) -> str:
    """The kept sentences, with the line breaks between them."""
    parts: list[str] = []
    for place in sorted(kept):
        if parts and place - 1 not in kept:
            parts.append(CUT)
        parts.append(sentences[place])
    return " ".join(parts).replace("\n ", "\n").strip()
