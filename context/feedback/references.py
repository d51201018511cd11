"""Which memories of a prompt an answer refers to, how surely, and where.

Words are compared, not letters: without endings, without stop words, each weighed by how few of the prompt's memories
hold it, so that a name which is everywhere says little in any language. The answer is read in windows of one or two
sentences, since what uses a memory stands together; so a long answer on something else gathers nothing by its length.
A memory that says the same as another one which is surely referred to is helped by it.

Source: seed 005.1, D3. What each part decides is measured by benchmarks/references.py.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from memory.comparison.lexicon import MONTHS, NUMBER_WORDS, words

MAX_RESPONSE_CHARACTERS = 400_000
REFERENCED_AT = 0.25
"""Score from which a memory counts as referenced."""
LEAST_WINDOW_WEIGHT = 2.0
"""In rare words: one that is shared by chance is not all there is to a sentence of two."""
MAX_WINDOW_WORDS = 60
"""A longer sentence is read in parts."""

STOP_WORDS = words("""a about above after again against all also am an and any are aren as at be because been
    before being below between both but by can cannot could couldn d did didn do does doesn doing don down during
    each even ever few for from further get gets getting go goes going got had hadn has hasn have haven having he
    her here hers herself him himself his how i if in into is isn it its itself just know let like ll m make makes
    many may me might more most much must my myself no nor not now of off on once one only or other our ours
    ourselves out over own re really s same see shall she should shouldn so some such t than that the their theirs
    them themselves then there these they this those through to too under until up upon us ve very was wasn we
    well were weren what when where whether which while who whom whose why will with won would wouldn yes yet you
    your yours yourself yourselves""")
_LABEL = re.compile(r"\s*- (?:\(contested[^)\n]*\) |\[[^\]\n]*\] )*")
_WORD = re.compile(r"\d{4}-\d\d-\d\d|[^\W_]+")
_SENTENCE_END = re.compile(r"[.!…。！]+[\"'”’)]*\s+|\n\s*(?=\n|[-*•#|]|\d+[.)])|[。！]")
"""A question is read with what answers it."""
_SENTENCE_MARK = re.compile(r"[.!?…。！？]+(?=\s|$)")
_ENDINGS = ("ingly", "edly", "ing", "ied", "ies", "ed", "es", "ly", "s")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of content: as it is compared, and where it stands."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reference:
    """`score` in [0, 1]; `spans` are the characters of the answer that the memory accounts for, in order."""

    score: float
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def referenced(self) -> bool:
        return self.score >= REFERENCED_AT


@dataclass(frozen=True, slots=True)
class Weights:
    """What each feature adds to the log-odds of a reference.

    Whatever depends on the answer only raises them with words of the memory, so that what is foreign never helps.
    """

    intercept: float
    window_share: float
    both_shares: float
    new_share: float
    pairs: float
    rank: float
    asks: float
    twin: float


WEIGHTS = Weights(
    intercept=-4.3, window_share=0.6, both_shares=6.0, new_share=1.3, pairs=4.2, rank=1.2, asks=-2.3, twin=2.0
)
"""Fitted by benchmarks/references.py."""


@dataclass(slots=True)
class _Memory:
    """A memory as it is compared. `asks` is the share of its sentences that are questions, which tell little."""

    texts: list[str]
    asks: float
    weight: float = 0.0
    own: frozenset[str] = field(init=False)
    pairs: frozenset[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.own = frozenset(self.texts)
        self.pairs = frozenset(pairwise(self.texts))


def references_of(
    answer: str, memories: Sequence[str], *, question: str = "", weights: Weights = WEIGHTS
) -> list[Reference]:
    """For each memory, as a prompt showed it, how surely `answer` refers to it.

    Words of the `question` are said by whoever asks it, so they prove less than others.
    """
    said = content_words(answer)
    held = [_Memory([word.text for word in content_words(text)], _asking(text)) for text in memories]
    word_weights = _word_weights(held)
    for memory in held:
        memory.weight = sum(word_weights[word] for word in memory.own)
    holders: dict[str, list[int]] = {}
    for place, memory in enumerate(held):
        for word in memory.own:
            holders.setdefault(word, []).append(place)
    asked = frozenset(word.text for word in content_words(question))
    odds = [-math.inf] * len(held)
    best: list[Sequence[Word]] = [()] * len(held)
    for window in _windows(answer, said):
        for place, features in _features(window, held, holders, word_weights, asked).items():
            found = weights.intercept + sum(getattr(weights, name) * value for name, value in features.items())
            if found > odds[place]:
                odds[place], best[place] = found, window
    scores = [_likelihood(each) for each in odds]
    scores = _with_twins(scores, odds, held, word_weights, weights)
    whole = f" {' '.join(word.text for word in said)} "
    verbatim = [_is_repeated(text, whole) for text in memories]
    return [
        Reference(1.0 if repeated else round(score, 4), _spans(memory, said if repeated else window))
        for score, repeated, memory, window in zip(scores, verbatim, held, best, strict=True)
    ]


def content_words(text: str) -> list[Word]:
    """The words of `text` that say something, in order: in lower case, without endings; months and dates as numbers."""
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


def _asking(text: str) -> float:
    ends = _SENTENCE_MARK.findall(text)
    return sum("?" in end or "？" in end for end in ends) / len(ends) if ends else 0.0


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


def _word_weights(memories: Sequence[_Memory]) -> defaultdict[str, float]:
    """By word, near 1 for one that a single memory holds, near 0 for one that all do; 1 for others."""
    counts = Counter(word for memory in memories for word in memory.own)
    size = len(memories)
    if size < 2:
        return defaultdict(lambda: 1.0)
    most = math.log((size + 1) / 0.5)
    weights = {word: math.log((size + 1) / (count + 0.5)) / most for word, count in counts.items()}
    return defaultdict(lambda: 1.0, weights)


def _windows(answer: str, said: Sequence[Word]) -> list[Sequence[Word]]:
    """Sentences, and each with the one after it."""
    ends = [match.start() for match in _SENTENCE_END.finditer(answer)]
    sentences: list[list[Word]] = [[]]
    place = 0
    for word in said:
        passed = place
        while place < len(ends) and ends[place] < word.start:
            place += 1
        if (place > passed or len(sentences[-1]) >= MAX_WINDOW_WORDS) and sentences[-1]:
            sentences.append([])
        sentences[-1].append(word)
    return [*sentences, *([*first, *second] for first, second in pairwise(sentences))] if said else []


def _features(
    window: Sequence[Word],
    memories: Sequence[_Memory],
    holders: Mapping[str, Sequence[int]],
    word_weights: Mapping[str, float],
    asked: frozenset[str],
) -> dict[int, dict[str, float]]:
    """Of each memory that shares a word with the window, by its place."""
    texts = [word.text for word in window]
    said = frozenset(texts)
    pairs = frozenset(pairwise(texts))
    total = max(sum(word_weights[word] for word in said), LEAST_WINDOW_WEIGHT)
    new_total = max(sum(word_weights[word] for word in said - asked), 1.0)
    found: dict[int, dict[str, float]] = {}
    for place in sorted({place for word in said for place in holders.get(word, ())}):
        memory = memories[place]
        shared = memory.own & said
        hit = sum(word_weights[word] for word in shared)
        new = sum(word_weights[word] for word in shared - asked)
        together = sum(word_weights[one] + word_weights[two] for one, two in memory.pairs & pairs)
        window_share = hit / total
        found[place] = {
            "window_share": window_share,
            "both_shares": math.sqrt(hit / memory.weight * window_share),
            "new_share": new / new_total if new else 0.0,
            "pairs": min(together / 2 / total, 1.0),
            "rank": hit,
            "asks": memory.asks,
        }
    most = max((one["rank"] for one in found.values()), default=1.0)
    for one in found.values():
        one["rank"] /= most
    return found


def _with_twins(
    scores: Sequence[float],
    odds: Sequence[float],
    memories: Sequence[_Memory],
    word_weights: Mapping[str, float],
    weights: Weights,
) -> list[float]:
    """`scores`, raised where another memory that says nearly the same has a higher one."""
    found = []
    for place, memory in enumerate(memories):
        support = 0.0
        if odds[place] > -math.inf and weights.twin:
            for other, twin in enumerate(memories):
                if other != place and scores[other] > max(support, scores[place]):
                    least = min(memory.weight, twin.weight)
                    alike = sum(word_weights[word] for word in memory.own & twin.own) / least if least else 0.0
                    support = max(support, alike * scores[other])
        found.append(_likelihood(odds[place] + weights.twin * support))
    return found


def _likelihood(odds: float) -> float:
    return 1 / (1 + math.exp(-max(odds, -50.0)))


def _is_repeated(memory: str, whole: str) -> bool:
    """Whether all words of content of the memory, without its label, stand in the answer one after the other."""
    own = " ".join(word.text for word in content_words(_LABEL.sub("", memory, count=1)))
    return bool(own) and f" {own} " in whole


def _spans(memory: _Memory, window: Iterable[Word]) -> tuple[tuple[int, int], ...]:
    return tuple(dict.fromkeys((word.start, word.end) for word in window if word.text in memory.own))
