"""Bit masks of the query's lexemes that an item contains, and of those that name its speaker or subject."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from memory.search.fusion import Flags, Places

Spellings = Mapping[str, Sequence[Sequence[str]]]
"""Lexemes of the other names of a subject, by a lexeme of the name in the query."""


def lexeme_values(lexemes: Sequence[str], spellings: Spellings) -> dict[str, Any]:
    """The parameters of `masks_of`."""
    values: dict[str, Any] = {f"terms{place}": holder_query(word, spellings) for place, word in enumerate(lexemes)}
    for place, word in enumerate(lexemes):
        if word in spellings:
            values[f"words{place}"] = [word, *(each for also in spellings[word] for each in also)]
        else:
            values[f"word{place}"] = word
    return values


def has_spellings(lexemes: Sequence[str], spellings: Spellings) -> tuple[bool, ...]:
    """For each lexeme, whether it has other spellings."""
    return tuple(word in spellings for word in lexemes)


def masks_of(spelled: Sequence[bool]) -> tuple[str, str]:
    """SQL of two masks for `bits_read`: the lexemes that an item contains, and those that name its speaker or subject.

    A lexeme with other spellings (`spelled`, by `has_spellings`) also matches those.
    """
    held = _mask(f"terms @@ {tsquery_of(place)}" for place in range(len(spelled)))
    named = (
        f"names && %(words{place})s::text[]" if also else f"%(word{place})s::text = ANY(names)"
        for place, also in enumerate(spelled)
    )
    return held, _mask(named)


def bits_read(masks: Sequence[int] | Places, lexemes: Sequence[str]) -> Flags:
    """Decode masks into a flag matrix with one column per lexeme."""
    flags: Flags = (np.asarray(masks, np.int64)[:, None] >> np.arange(len(lexemes)) & 1).astype(bool)
    return flags


def _mask(flags: Iterable[str]) -> str:
    """SQL of conditions as the bits of one number; the first is the lowest bit."""
    return " | ".join(f"(({flag})::integer::bigint << {place})" for place, flag in enumerate(flags)) or "0::bigint"


def tsquery_of(place: int) -> str:
    return f"%(terms{place})s::tsquery"


def holder_query(word: str, spellings: Spellings) -> str:
    """The tsquery for items with a lexeme, or with all lexemes of another spelling."""
    others = (" & ".join(map(_quoted, also)) for also in spellings.get(word, ()))
    return " | ".join((_quoted(word), *(f"({each})" for each in others)))


def _quoted(lexeme: str) -> str:
    """A lexeme quoted for a tsquery."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
