"""Passages of a long text, each of which has a vector of its own: an embedding model reads no more than the beginning
of a text, and its vector of many sentences says little of any one of them."""

import re

MOST_CHARACTERS = 400
"""Of a passage: about seventy words."""
LEAST_CHARACTERS = 120
"""A shorter passage is joined with the one beside it, where sentences allow."""

_BORDER = re.compile(r"\n+|(?<=[.!?;:。！？])\s+|(?<=[。！？])")


def passages_of(text: str) -> list[tuple[int, int]]:
    """The passages of `text` in order, as places where each begins and ends; none of a text that is one passage.

    Sentences and lines stay whole as far as the length allows, then words.
    """
    if len(text) <= MOST_CHARACTERS:
        return []
    found: list[tuple[int, int]] = []
    begin = end = 0
    for border in (*(match.end() for match in _BORDER.finditer(text)), len(text)):
        while border - begin > MOST_CHARACTERS:
            if end - begin < LEAST_CHARACTERS:
                end = text.rfind(" ", begin + LEAST_CHARACTERS, begin + MOST_CHARACTERS) + 1 or begin + MOST_CHARACTERS
            found.append((begin, end))
            begin = end
        end = border
    if end > begin:
        short = found and end - begin < LEAST_CHARACTERS
        found.append((found.pop()[0] if short else begin, end))
    shown = [(begin, end) for begin, end in found if text[begin:end].strip()]
    return shown if len(shown) > 1 else []
