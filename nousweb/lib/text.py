"""What text PostgreSQL can store, what text says nothing, and what text people can approve: they see all of it."""

import unicodedata
from typing import Any

from nousweb.lib.characters import hidden_places, place_of
from nousweb.lib.chatmarks import chat_mark_indices, mark_at

_NAMED = 3
"""So many hidden characters a reason names."""

UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
"""Controls, format characters (zero-width and bidirectional ones among them) and white space of every kind."""

UNSEEN_CHARACTERS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00016fe4\U0001d159"
    + "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
)
"""Fillers, joiners, variation selectors and the empty Braille pattern: letters, marks and symbols without ink."""


def is_blank(text: str) -> bool:
    """Whether nothing of `text` can be seen."""
    return all(
        character in UNSEEN_CHARACTERS or unicodedata.category(character) in UNSEEN_CATEGORIES for character in text
    )


def unstorable_reason(text: str) -> str | None:
    """Why `text` cannot be stored (a NUL or half a surrogate pair), or None when it can."""
    if "\x00" in text:
        return "A NUL character cannot be stored."
    try:
        text.encode()
    except UnicodeEncodeError:
        return "The text holds half of a surrogate pair, which is no character."
    return None


def first_unstorable(value: Any) -> str | None:
    """The reason for the first string inside a JSON-like `value`, keys included, that cannot be stored."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            if reason := unstorable_reason(current):
                return reason
        elif isinstance(current, dict):
            pending.extend(current.keys())
            pending.extend(current.values())
        elif isinstance(current, list | tuple):
            pending.extend(current)
    return None


def unapprovable_reason(text: str) -> str | None:
    """Why `text` may not become part of an identity, or None: what is approved has to be what a prompt says.

    It names each character that does not show and each mark of a chat template, with its line and column.
    """
    if hidden := hidden_places(text):
        named = "; ".join(f"{one.code} {one.name} (line {one.line}, column {one.column})" for one in hidden[:_NAMED])
        more = f" and {len(hidden) - _NAMED:,} more" if len(hidden) > _NAMED else ""
        return f"It holds characters that do not show or that reorder others: {named}{more}."
    if marks := chat_mark_indices(text):
        place = place_of(text, marks[0])
        return (
            f"It holds {mark_at(text, marks[0])!r} near line {place.line}, column {place.column}, which a language "
            "model may take for a change of speaker or for markup; write it in other words."
        )
    return None
