"""Bounds of what callers send, and the form of keys. Models need them; the types with these bounds are in
`constrained_types`, which loads pydantic."""

import re
import unicodedata

MAX_PAGE = 200
"""Rows of one page of a list."""
MAX_QUERY_CHARACTERS = 4_000
"""Read of a query; the rest is left out."""
WORD = re.compile(r"[a-z][a-z0-9_-]{0,49}")
MAX_TAGS = 20
"""On one memory, and of one request."""
MAX_KEY_CHARACTERS = 100
"""Maximum length of the key of a project, a task or a user."""
EVERYBODY, UNASSIGNED = "*", "?"
"""Instead of the key of a user: a memory for everybody, and one that nobody has assigned yet. No user is called so."""
MAX_CURSOR_CHARACTERS = 400
"""Ours have about 110, and up to 330 where a run's own name is in them; a longer one is not even parsed."""


def composed(value: str) -> str:
    """`value` in Unicode's composed form, NFC: equal for all spellings of the same characters."""
    return unicodedata.normalize("NFC", value)


def key_text(value: str) -> str:
    """The key of a project or task, each character in its one composed form; "" for none. Raises ValueError."""
    if value.isascii() and value.isalnum() and len(value) <= MAX_KEY_CHARACTERS:
        return value
    value = composed(value)
    if len(value) > MAX_KEY_CHARACTERS:
        raise ValueError(f"A key has at most {MAX_KEY_CHARACTERS} characters; this has {len(value):,}.")
    if not value.isprintable() or value != value.strip():
        raise ValueError("A key is printable text without white space at its ends.")
    return value


def user_text(value: str) -> str:
    """The key of a user in the same form, or EVERYBODY; "" for none. Raises ValueError."""
    if value == UNASSIGNED:
        raise ValueError(f"{UNASSIGNED!r} stands for memory that is assigned to no user.")
    return key_text(value)
