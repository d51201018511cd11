"""What text PostgreSQL can store."""

from typing import Any


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
