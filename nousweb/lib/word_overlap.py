"""The share of one text's words that another repeats. Source: seed 005.1, D3, instead of Jaccard.

A prompt of 2,000 words and an answer that quotes 100 of them share 5 % by Jaccard although the answer used them; so
each item is compared by itself, by the share of its words that the other contains.
"""

import re

_WORD = re.compile(r"\b\w{3,}\b")


def words_of(text: str) -> frozenset[str]:
    """The words of three letters or more, in lower case."""
    return frozenset(_WORD.findall(text.lower()))


def share_within(item: frozenset[str], text: frozenset[str]) -> float:
    """Share of `item` that `text` contains, 0 to 1."""
    return len(item & text) / len(item) if item else 0.0
