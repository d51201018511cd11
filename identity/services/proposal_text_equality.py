"""When a proposed text counts as one that people rejected. Pure."""

import re
import unicodedata

from nousweb.lib.lookalikes import lookalike_fold, powers_marked

# All characters except letters and digits, and the fillers of Hangul, which are invisible letters. A sign, a separator
# or a power belongs to its number: 0.5 is not 05.
_NO_WORD = re.compile("(?:(?![-\u2212+.,^/][0-9])[\\W_\u115f\u1160])+")


def bare_words(content: str) -> str:
    """A text for comparison with rejected ones: its letters and numbers alone, case-folded, with lookalikes as Latin
    letters.

    A text without any of these is compared by its other characters.
    """
    folded = unicodedata.normalize("NFKC", powers_marked(lookalike_fold(content))).casefold()
    plain = " ".join(folded.split())
    return _NO_WORD.sub("", plain) or plain
