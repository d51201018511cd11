"""Token counts by estimate, and truncation to a budget of tokens."""

import re

CHARACTERS_PER_TOKEN = 4
ELLIPSIS = " …"

_SENTENCE_END = re.compile(r"[.!?…](?=\s)|\n")


def estimate_tokens(text: str) -> int:
    """Estimated tokens of `text`: a quarter of its characters, rounded up, so that a budget is never passed."""
    return tokens_of_length(len(text))


def tokens_of_length(characters: int) -> int:
    """Estimated tokens of a text of so many characters."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def truncate_to_tokens(text: str, budget: int) -> str:
    """Longest beginning of `text` within `budget` tokens, ended at a sentence, else a word, and marked with "…".

    Returns "" for a budget that holds nothing.
    """
    if estimate_tokens(text) <= budget:
        return text
    room = budget * CHARACTERS_PER_TOKEN - len(ELLIPSIS)
    if room <= 0:
        return ""
    head = text[:room]
    ends = [match.end() for match in _SENTENCE_END.finditer(text[: room + 1]) if match.end() <= room]
    # A border in the first half would throw away more than it tidies.
    if ends and ends[-1] >= room // 2:
        head = head[: ends[-1]]
    elif head.rfind(" ") >= room // 2:
        head = head[: head.rindex(" ")]
    return head.rstrip() + ELLIPSIS
