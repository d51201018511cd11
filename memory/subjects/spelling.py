"""Spellings of subjects in the forms in which they are compared. Pure.

The key ignores case, white space and punctuation that only parts words, and reads letters that pass for Latin ones as
these. What punctuation can tell apart stays: C and C++, .NET and net, 1.5 and 15, an address and a host. The meaning
also writes alike what certainly says the same, by the tables of memory/subjects/name_lexicon.py. Two spellings of one
meaning are merged without asking anybody.
"""

import hashlib
import re
import unicodedata

from memory.models import MAX_SPELLING_CHARACTERS
from memory.subjects import name_lexicon
from nousweb.lib.lookalikes import lookalike_fold
from nousweb.lib.validation import visible_text

_APOSTROPHES = str.maketrans(dict.fromkeys("’‘`´ʼ", "'"))
_QUOTES = re.compile(r"[\"“”„«»‹›]|'(?!s\b)")
"""A possessive stays: McDonald's is not McDonald, nor William's Williams."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DOTTED = re.compile(r"(?<=\w)\.(?=[^\W\d])|(?<=[^\W\d])\.(?=\w)")
"""A dot inside a word, where no number is parted by it."""
_PARTING = re.compile(r"[\s_()\[\]{}<>;:!?¡¿|·•–—…,]+|(?<=\w)-+(?=\w)|-+(?=\s|$)|(?<!\w)\.+(?=\s|$)|(?<=\w)\.+(?=\s|$)")
_INNER_DOT = re.compile(r"(?<=[^\W\d])\.(?=[^\W\d])")


def tokens_of(spelling: str) -> tuple[str, ...]:
    """The words of a spelling in lower case, without what only parts them."""
    text = _plain(spelling)
    text = _PARTING.sub(" ", _DOTTED.sub(" ", _THOUSANDS.sub("", text)))
    return tuple(text.split())


def key_of(spelling: str) -> str:
    """A key that is equal for spellings that differ only by case, white space and separating punctuation."""
    return _bounded(" ".join(tokens_of(spelling)) or " ".join(spelling.casefold().split()))


def meaning_of(spelling: str) -> str:
    """A key that is equal for spellings that certainly mean the same thing."""
    key = " ".join(tokens_of(spelling))
    if key in name_lexicon.USER:
        return name_lexicon.USER_MEANING
    joined = _INNER_DOT.sub("", _plain(spelling))
    words = tokens_of(joined) if len(joined) >= name_lexicon.MIN_JOINED_CHARACTERS else tuple(key.split())
    written = " ".join(name_lexicon.CERTAIN_WORDS.get(word, word) for word in words)
    return _bounded(name_lexicon.CERTAIN_NAMES.get(written, written)) or key_of(spelling)


def is_users(spelling: str) -> bool:
    """Whether a spelling can only mean the user."""
    return meaning_of(spelling) == name_lexicon.USER_MEANING


def _plain(spelling: str) -> str:
    shown = lookalike_fold(unicodedata.normalize("NFKC", visible_text(spelling)))
    return _QUOTES.sub("", shown.casefold().translate(_APOSTROPHES))


def _bounded(text: str) -> str:
    """Normal forms can be longer than what was written; what is too long keeps its beginning and a digest."""
    if len(text) <= MAX_SPELLING_CHARACTERS:
        return text
    return f"{text[:150]} {hashlib.sha256(text.encode()).hexdigest()[:32]}"
