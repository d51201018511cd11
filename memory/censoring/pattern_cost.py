"""The cost limit of a censor pattern that an agent writes, measured on worst-case texts for that pattern.

RE2 never explodes, but a pattern with many states in play takes tens of seconds for a megabyte. People may afford
such a pattern; an agent, whose patterns run in every check, may not.
"""

import random
import re
import time
from itertools import islice

from memory.censoring.patterns import pattern_compile
from nousweb.lib.errors import Invalid

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
