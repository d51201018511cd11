"""Patterns of censors: which are accepted, and how they are compiled.

The engine is RE2: its time grows with the text and never explodes, whatever the pattern, so no text can be made
that wears a censor out; and it bounds the memory that compiling takes. It has no look-around and no
back-references, which a creation refuses in words.
"""

import re
from functools import lru_cache
from itertools import islice
from typing import Any

import re2

from memory.policy.size_limits import MAX_PATTERN_CHARACTERS
from nousweb.lib.errors import Invalid
from nousweb.lib.validation import is_blank, unstorable_reason

MAX_REPETITION = 1_000
MAX_LITERAL_WORDS = 5
"""A pattern of more plain words than this is a sentence: it would match only itself."""
COMPILED_BYTES = 1 << 20

_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_REPETITION = re.compile(r"(?<!\\)\{(\d+)(?:,(\d*))?\}")
_BLIND_BOUNDARY = re.compile(r"\\b[^\x00-\x7f]|[^\x00-\x7f]\\b")

ORDINARY_TEXTS = (
    "Good morning, Tom.",
    "It rained in Lisbon all week!",
    "Why not? Let us see.",
    "2 + 2 = 4",
    "ja, gern",
    "今日は晴れです",
)
"""Nothing in these is worth a censor: a pattern that matches all of them matches everything."""


@lru_cache(maxsize=2_000)
def pattern_compile(pattern: str) -> Any:
    """`pattern` ready to search, ignoring case unless it says `(?-i)`. Raises re2.error."""
    options = re2.Options()
    options.case_sensitive = False
    options.max_mem = COMPILED_BYTES
    options.log_errors = False
    return re2.compile(pattern, options)


def meaning_check(text: str) -> str:
    """The text that a semantic censor stands for, as it is stored. Raises Invalid."""
    if why := unstorable_reason(text):
        raise Invalid(why, field="pattern")
    text = " ".join(text.split())
    if is_blank(text):
        raise Invalid("pattern must not be empty.", field="pattern")
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise Invalid(f"pattern holds at most {MAX_PATTERN_CHARACTERS:,} characters.", field="pattern")
    return text


def pattern_check(pattern: str) -> str:
    """`pattern`, when it can work as a censor. Raises Invalid that says why it cannot, and what would."""
    if why := unstorable_reason(pattern):
        raise Invalid(why, field="pattern")
    if is_blank(pattern):
        raise Invalid(
            r"pattern must not be empty; write invisible characters by their numbers, such as \x{200b}.",
            field="pattern",
        )
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise Invalid(f"pattern holds at most {MAX_PATTERN_CHARACTERS:,} characters.", field="pattern")
    if not _SPECIAL.search(pattern) and len(pattern.split()) > MAX_LITERAL_WORDS:
        raise Invalid(
            "This pattern is prose: it would match only a text with exactly these words. "
            "List the characteristic words, separated by |, or let it match by meaning.",
            field="pattern",
        )
    # RE2 takes a repetition beyond its bound for plain text, which would never match as meant.
    if any(int(n) > MAX_REPETITION for found in _REPETITION.finditer(pattern) for n in found.groups() if n):
        raise Invalid(f"A repetition goes up to {MAX_REPETITION:,}.", field="pattern")
    if _BLIND_BOUNDARY.search(pattern):
        raise Invalid(
            r"\b knows only the letters a to z: beside another letter it would never match. "
            r"Leave it out or write (?:^|\PL) and (?:\PL|$).",
            field="pattern",
        )
    try:
        compiled = pattern_compile(pattern)
    except re2.error as error:
        raise Invalid(f"The pattern cannot be read: {_reason(error)}.", field="pattern") from error
    if compiled.search("") or any(_matches_nothing(compiled, text) for text in ORDINARY_TEXTS):
        raise Invalid("The pattern matches the empty text, so it would match every text.", field="pattern")
    if all(compiled.search(text) for text in ORDINARY_TEXTS):
        raise Invalid("The pattern matches ordinary texts: make it more specific.", field="pattern")
    return pattern


def _matches_nothing(compiled: Any, text: str) -> bool:
    return any(found.start() == found.end() for found in islice(compiled.finditer(text), 50))


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    words = (said.decode(errors="replace") if isinstance(said, bytes) else str(said))[:200]
    if "perl operator" in words or "escape sequence" in words:
        words += "; there is no look-around and no back-reference here (RE2 syntax)"
    return words
