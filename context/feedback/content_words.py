"""The content words of a text (without stop words), by which answers are compared with memories."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from memory.comparison.lexicon import MONTHS, NUMBER_WORDS, words

MAX_WINDOW_WORDS = 60
"""A longer sentence is read in parts."""
MONTH_NUMBERS = {f"month{number}": number for number in range(1, 13)}
"""Numbers of the months by their normalised words."""

STOP_WORDS = words("""a about above after again against all also am an and any are aren as at be because been
    before being below between both but by can cannot could couldn d did didn do does doesn doing don down during
    each even ever few for from further get gets getting go goes going got had hadn has hasn have haven having he
    her here hers herself him himself his how i if in into is isn it its itself just know let like ll m make makes
    many may me might more most much must my myself no nor not now of off on once one only or other our ours
    ourselves out over own re really s same see shall she should shouldn so some such t than that the their theirs
    them themselves then there these they this those through to too under until up upon us ve very was wasn we
    well were weren what when where whether which while who whom whose why will with won would wouldn yes yet you
    your yours yourself yourselves""")
_WORD = re.compile(r"\d{4}-\d\d-\d\d|[^\W_]+")
_SENTENCE_END = re.compile(r"[.!…。！]+[\"'”’)]*\s+|\n\s*(?=\n|[-*•#|]|\d+[.)])|[。！]")
"""Ends of sentences; a question is not separated from its answer."""
_ENDINGS = ("ingly", "edly", "ing", "ied", "ies", "ed", "es", "ly", "s")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of content: as it is compared, and where it stands."""

    text: str
    start: int
    end: int


def content_words(text: str) -> list[Word]:
    """The content words of `text` in order: in lower case, without endings; months and dates as numbers."""
    found: list[Word] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        word = unicodedata.normalize("NFKC", match[0]).casefold()
        if len(word) == 10 and word[4] == "-":
            year, month, day = word.split("-")
            found += [Word(part, start, end) for part in (year, f"month{int(month)}", str(int(day)))]
        elif word in MONTHS and (word != "may" or match[0][0].isupper()):
            found.append(Word(f"month{int(MONTHS[word])}", start, end))
        elif word in NUMBER_WORDS and word != "one":
            found.append(Word(NUMBER_WORDS[word], start, end))
        elif word not in STOP_WORDS and (len(word) > 1 or not word.isascii() or word.isdigit()):
            found.append(Word(_without_ending(word), start, end))
    return found


def windows_of(text: str, content: Sequence[Word]) -> list[Sequence[Word]]:
    """The words of `text` by sentence, and by each pair of consecutive sentences."""
    ends = [match.start() for match in _SENTENCE_END.finditer(text)]
    sentences: list[list[Word]] = [[]]
    place = 0
    for word in content:
        passed = place
        while place < len(ends) and ends[place] < word.start:
            place += 1
        if (place > passed or len(sentences[-1]) >= MAX_WINDOW_WORDS) and sentences[-1]:
            sentences.append([])
        sentences[-1].append(word)
    return [*sentences, *([*first, *second] for first, second in pairwise(sentences))] if content else []


def _without_ending(word: str) -> str:
    if not word.isascii() or not word.isalpha():
        return word
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 3:
            if ending in ("ied", "ies"):
                return f"{stem}y"
            if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz":
                stem = stem[:-1]
            word = stem
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word
