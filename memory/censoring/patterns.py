"""Patterns of censors: which are accepted, and how they are compiled.

The engine is RE2: its time grows with the text and never explodes, whatever the pattern, so no text can be made
that wears a censor out; and it bounds the memory that compiling takes. It has no look-around and no
back-references, which a creation refuses in words.
"""

import random
import re
import time
from functools import lru_cache
from itertools import islice
from typing import Any

import re2

from memory.policy import MAX_PATTERN_CHARACTERS
from nousweb.lib import Invalid, is_blank, unstorable_reason

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


MAX_TOKEN_PATTERN_CHARACTERS = 500
MAX_TOKEN_PROGRAM = 4_000
"""Instructions of the compiled pattern; a class of letters of all scripts takes 1,200."""
SAMPLE_CHARACTERS = 20_000
MAX_SAMPLE_SECONDS = 0.04
"""Processor time for one sample: the longest text that is checked takes five times as long."""
RUNS = 2
PLACES = 20

_PROSE = "Good morning, please look at the invoice of 12 March (no. 4711) and tell me what is wrong with it.\n"
_OTHER_SCRIPTS = "übergrößeжизньλόγος今日は晴れです"


def pattern_cost_check(pattern: str) -> None:
    """Raise Invalid where `pattern`, which can be compiled, is too long, too large or too slow for an agent."""
    if len(pattern) > MAX_TOKEN_PATTERN_CHARACTERS:
        raise Invalid(
            f"An agent's pattern holds at most {MAX_TOKEN_PATTERN_CHARACTERS:,} characters; this has {len(pattern):,}.",
            field="pattern",
        )
    compiled = pattern_compile(pattern)
    size = max(compiled.programsize, compiled.reverseprogramsize)
    if size > MAX_TOKEN_PROGRAM:
        raise Invalid(
            f"This pattern compiles to {size:,} instructions; an agent's has at most {MAX_TOKEN_PROGRAM:,}. "
            "Simplify it (fewer repetitions and classes), or ask a person to add it.",
            field="pattern",
        )
    for sample in samples(pattern):
        if seconds_of(pattern, sample) > MAX_SAMPLE_SECONDS:
            raise Invalid(
                "This pattern is too slow: some texts would take very long. "
                "Use fewer repetitions inside repetitions, or ask a person to add it.",
                field="pattern",
            )


def seconds_of(pattern: str, text: str) -> float:
    """Processor time of one check of `text`: the least of a few, because other work only ever adds to it."""
    compiled = pattern_compile(pattern)
    best = float("inf")
    for _ in range(RUNS):
        begun = time.thread_time()
        for _found in islice(compiled.finditer(text), PLACES):
            pass
        best = min(best, time.thread_time() - begun)
        if best <= MAX_SAMPLE_SECONDS:
            break
    return best


def samples(pattern: str) -> list[str]:
    """Texts of the pattern's own characters, the same on every call: repeated and shuffled; and ordinary ones."""
    # The seed makes equal patterns have equal samples; nothing here is secret.
    chance = random.Random(pattern)  # noqa: S311
    literal = sorted({character for character in re.sub(r"\\[pP](\{\w+\}|\w)|\\.", "", pattern) if character.isalnum()})
    own = literal or ["a"]
    some = [*own, "a", "b", "0", "1"]
    pairs = [some[:2], chance.sample(some, 2), ["a", "b"]]
    texts = [own[0] * SAMPLE_CHARACTERS, own[-1] * SAMPLE_CHARACTERS, "a" * SAMPLE_CHARACTERS]
    for alphabet in (*pairs, own, [*some, " "], [*some, " ", "\n", ".", "-", "_", "/"], list(_OTHER_SCRIPTS)):
        texts.append("".join(chance.choices(alphabet, k=SAMPLE_CHARACTERS)))
    texts.append((_PROSE * (SAMPLE_CHARACTERS // len(_PROSE) + 1))[:SAMPLE_CHARACTERS])
    return texts
