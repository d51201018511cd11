"""When two proposed texts count as the same: for repeated proposals, and for rejected ones. Pure."""

import re
import unicodedata

from nousweb.lib.lookalikes import lookalike_fold

# All characters except letters and digits, and the fillers of Hangul, which are invisible letters.
_NO_WORD = re.compile("[\\W_\u115f\u1160]+")


def comparable_content(content: str) -> str:
    """A text as it is compared: without its spacing, its case and other ways to write the same character."""
    return " ".join(unicodedata.normalize("NFKC", content).casefold().split())


def bare_words(content: str) -> str:
    """A text for comparison with rejected ones: its letters and digits alone, case-folded, with lookalikes as Latin
    letters.

    A text without any of these is compared by its other characters.
    """
    plain = comparable_content(lookalike_fold(content))
    return _NO_WORD.sub("", plain) or plain
