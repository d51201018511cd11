"""Which of a query's lexemes an item holds, and which name its speaker or subject, as bits of two numbers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from memory.search.fusion import Flags, Places

Spellings = Mapping[str, Sequence[Sequence[str]]]
"""Other names of a subject, each as its lexemes, by a lexeme of the name that a query has."""


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
    """Of each lexeme whether it is spelled otherwise too."""
    return tuple(word in spellings for word in lexemes)


def masks_of(spelled: Sequence[bool]) -> tuple[str, str]:
    """Which of the lexemes an item holds, and which name its speaker or subject: expressions that `bits_read` reads.

    Of a lexeme that is `spelled` otherwise too (`spelled_of`), those count that hold or name the same subject.
    """
    held = _mask(f"terms @@ {tsquery_of(place)}" for place in range(len(spelled)))
    named = (
        f"names && %(words{place})s::text[]" if also else f"%(word{place})s::text = ANY(names)"
        for place, also in enumerate(spelled)
    )
    return held, _mask(named)


def bits_read(masks: Sequence[int] | Places, lexemes: Sequence[str]) -> Flags:
    """One column for each lexeme."""
    flags: Flags = (np.asarray(masks, np.int64)[:, None] >> np.arange(len(lexemes)) & 1).astype(bool)
    return flags


def _mask(flags: Iterable[str]) -> str:
    """Conditions as the bits of one number, the first the lowest."""
    return " | ".join(f"(({flag})::integer::bigint << {place})" for place, flag in enumerate(flags)) or "0::bigint"


def tsquery_of(place: int) -> str:
    return f"%(terms{place})s::tsquery"


def holder_query(word: str, spellings: Spellings) -> str:
    """The query for items that hold a lexeme, or all of another spelling that it stands for."""
    others = (" & ".join(map(_quoted, also)) for also in spellings.get(word, ()))
    return " | ".join((_quoted(word), *(f"({each})" for each in others)))


def _quoted(lexeme: str) -> str:
    """A lexeme as a tsquery reads it, whatever characters it has."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
