"""The features that decide whether an answer refers to a memory: a row of numbers per memory and window of the answer.

Shared words are weighed twice: by how few of the prompt's memories contain them, and by how few of the whole store do.
More words that do not match never raise a feature that depends on the answer (`RISING`, `FALLING`, and shares among the
memories), so that a long answer gains nothing by its length. A memory is cited by the phrases that the answer shares
with it: contiguous words of content, or a number with its unit. A single word that happens to occur in both is no
evidence of where the answer's words come from.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import pairwise

from context.feedback.content_words import MONTH_NUMBERS, Word, content_words

MAX_PLACES = 16
"""Places of a token in a memory that are looked at."""
_BREAK = re.compile(r"[,;:?!.\n|()]")
_IN_NUMBER = re.compile(r"[.:,/'-]")
_BEFORE, _AFTER = "$€£¥", "%‰°€"
_WITH_UNIT = re.compile(r"\d+[^\W\d_]+|.*[%‰°€$£¥].*")


@dataclass(frozen=True, slots=True)
class Token:
    """A word, or a whole number with its signs: "13:30", "1.5", "30%". `breaks`: a phrase ends before it."""

    text: str
    words: tuple[Word, ...]
    breaks: bool

    @property
    def is_date(self) -> bool:
        return self.text in MONTH_NUMBERS

    @property
    def has_unit(self) -> bool:
        return _WITH_UNIT.fullmatch(self.text) is not None


def tokens_of(text: str, words: Sequence[Word]) -> list[Token]:
    """The tokens of these content words of `text`, in order."""
    found: list[Token] = []
    last: Word | None = None
    for word in words:
        shown = word.text
        between = text[last.end : word.start] if last else "\n"
        if last and shown[0].isdigit() and last.text[-1].isdigit() and _IN_NUMBER.fullmatch(between):
            before = found.pop()
            found.append(Token(f"{before.text}{between}{shown}", (*before.words, word), before.breaks))
        else:
            if shown.isdigit():
                before_it, after_it = text[max(word.start - 1, 0) : word.start], text[word.end : word.end + 1]
                shown = before_it * (before_it in _BEFORE) + shown + after_it * (after_it in _AFTER)
            found.append(Token(shown, (word,), _BREAK.search(between) is not None))
        last = word
    return found


def shared_phrases(answer: Sequence[Token], memory: Sequence[Token]) -> list[range]:
    """The phrases of the answer that stand in the memory too, in order, as places of tokens, each as long as it can be
    from its begin on."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, token in enumerate(memory):
        if len(places[token.text]) < MAX_PLACES:
            places[token.text].append(place)
    found: list[range] = []
    for begin, token in enumerate(answer):
        if found and begin < found[-1].stop:
            continue
        ends = [begin + _length(answer, begin, memory, place) for place in places.get(token.text, ())]
        end = max(ends, default=begin)
        if (
            end - begin < 2
            and not (end > begin and token.has_unit)
            and _is_reversed_date(answer, begin, memory, places)
        ):
            end = begin + 2
        if end - begin >= 2 or (end > begin and token.has_unit):
            found.append(range(begin, end))
    return found


def _length(answer: Sequence[Token], begin: int, memory: Sequence[Token], place: int) -> int:
    length = 1
    while (
        begin + length < len(answer)
        and place + length < len(memory)
        and answer[begin + length].text == memory[place + length].text
        and not answer[begin + length].breaks
        and not memory[place + length].breaks
    ):
        length += 1
    return length


def _is_reversed_date(
    answer: Sequence[Token], begin: int, memory: Sequence[Token], places: dict[str, list[int]]
) -> bool:
    """Whether a day and its month, or a month and its year, stand in the memory the other way round."""
    pair = answer[begin : begin + 2]
    if len(pair) < 2 or pair[1].breaks or not (pair[0].is_date or pair[1].is_date):
        return False
    return any(place and memory[place - 1].text == pair[1].text for place in places.get(pair[0].text, ()))


NAMES = (
    "window_share", "both_shares", "pairs", "part_share", "rare_part_share", "new_weight", "missing_numbers",
    "asked_share", "asked_rank", "new_rank", "both_rank", "best_explained", "best_alike", "rarest", "rarest_new",
    "fewest_holders", "owner", "date_near", "says_when", "words", "memories",
)  # fmt: skip
RISING = frozenset({"window_share", "both_shares", "pairs", "part_share", "rare_part_share"})
FALLING = frozenset({"new_weight", "missing_numbers"})
MIN_SHARED = 0.08
"""Minimum geometric mean of the shares that window and memory have in common; below it there is no reference."""
MIN_WINDOW_WEIGHT = 2.0
"""In rare words: one that is shared by chance is not all there is to a sentence of two."""
MIN_PART_WEIGHT, MIN_RARE_PART_WEIGHT, MIN_NEW_WEIGHT = 0.8, 0.6, 0.6
UNKNOWN_RARITY = 0.8
MAX_ROWS = 10_000
"""Maximum number of rows of an answer; those with the largest shares are kept."""
NO_HOLDER = 20.0
PREFIX = 5
"""Letters that longer words share count as nearly the same word ..."""
PREFIX_WEIGHT = 0.7
"""... with this weight."""

_LABEL = re.compile(r"\s*- (?:\((?:contested|older, undecided|as of|source changed)[^)\n]*\) |\[[^\]\n]*\] )*")
_LABEL_TEXT = re.compile(r"\[([^\]\n]*)\]")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SPEAKER = re.compile(r"([^\W\d_][\w.'-]{0,30}): ")
_FIRST_NAME = re.compile(r"([A-Z]\w+)\b")
_SAYS_WHEN = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|ago|last|next|weekend|this (?:week|month|year|morning))\b", re.I
)
_PART_END = re.compile(r"[,;:?!.\n]|\b(?:and|or)\b")
_NUMBER = re.compile(r"(\d{1,4})(?:st|nd|rd|th)?", re.ASCII)


class ShownMemory:
    """A memory as the prompt showed it and as it is compared."""

    def __init__(self, text: str) -> None:
        label = _LABEL.match(text)
        begins = label.end() if label else 0
        words = content_words(text)
        self.texts = [word.text for word in words]
        self._text, self._words = text, words
        self.own = frozenset(self.texts)
        self.pairs = frozenset(pairwise(self.texts))
        self.beginnings = frozenset(filter(None, map(_beginning, self.own)))
        self.said_when = day_of(text[:begins])
        self.says_when = bool(_SAYS_WHEN.search(text))
        self.owner = frozenset(word.text for word in content_words(_owner(text, begins)))
        self.stated = " ".join(word.text for word in content_words(text[begins:]))
        """Its words without its label."""
        self.weight = 0.0

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens of its text, by which phrases are found."""
        return tokens_of(self._text, self._words)


@dataclass(frozen=True, slots=True)
class Row:
    """A memory beside a window, by their places."""

    window: int
    memory: int
    values: Mapping[str, float]


class ShownMemories:
    """The memories of one prompt, beside each other and the question that it was for.

    `rarity` is by content word, in [0, 1]: how few memories of the store hold it; UNKNOWN_RARITY for others.
    """

    def __init__(self, memories: Sequence[str], question: str, rarity: Mapping[str, float]) -> None:
        self.memories = [ShownMemory(text) for text in memories]
        self.question_words = frozenset(word.text for word in content_words(question))
        self.weights = _word_weights(self.memories)
        self.rarity = rarity
        self.holders: dict[str, list[int]] = {}
        for place, memory in enumerate(self.memories):
            memory.weight = self._weight(memory.own)
            for word in sorted(memory.own):
                self.holders.setdefault(word, []).append(place)
        total = max(self._weight(self.question_words), 1.0)
        self.asked_shares = [self._weight(memory.own & self.question_words) / total for memory in self.memories]
        self.most_asked = max(self.asked_shares, default=0.0) or 1.0
        self.owners = frozenset().union(*(memory.owner for memory in self.memories))
        self._alike: dict[tuple[int, int], float] = {}

    def rare(self, word: str) -> float:
        return self.rarity.get(word, UNKNOWN_RARITY)

    def alike(self, one: int, other: int) -> float:
        """The share of the shorter memory's words that the longer one holds, by weight."""
        key = (min(one, other), max(one, other))
        if key not in self._alike:
            first, second = self.memories[one], self.memories[other]
            least = min(first.weight, second.weight)
            self._alike[key] = self._weight(first.own & second.own) / least if least else 0.0
        return self._alike[key]

    def rows(self, answer: str, windows: Sequence[Sequence[Word]]) -> list[Row]:
        """The rows of each memory and each window with enough in common, in order."""
        kept: list[tuple[float, int, int]] = []
        hits: list[dict[int, float]] = []
        for number, window in enumerate(windows):
            answer_words = frozenset(word.text for word in window)
            hit: dict[int, float] = defaultdict(float)
            for word in sorted(answer_words & self.holders.keys()):
                for place in self.holders[word]:
                    hit[place] += self.weights[word]
            hits.append(hit)
            total = self._total(answer_words)
            for place, weight in hit.items():
                both = weight / math.sqrt(self.memories[place].weight * total)
                if both >= MIN_SHARED:
                    kept.append((-both, number, place))
        by_window: dict[int, list[int]] = defaultdict(list)
        for _, number, place in sorted(kept)[:MAX_ROWS]:
            by_window[number].append(place)
        return [
            Row(number, place, values)
            for number in sorted(by_window)
            for place, values in self._rows_of(answer, windows[number], hits[number], sorted(by_window[number]))
        ]

    def _total(self, answer_words: frozenset[str]) -> float:
        return max(self._weight(answer_words), MIN_WINDOW_WEIGHT)

    def _rows_of(
        self, answer: str, window: Sequence[Word], hit: Mapping[int, float], places: Sequence[int]
    ) -> list[tuple[int, dict[str, float]]]:
        texts = [word.text for word in window]
        answer_words = frozenset(texts)
        new = answer_words - self.question_words
        total = self._total(answer_words)
        pairs = frozenset(pairwise(texts))
        parts = [part for part in _parts(answer, window, self.question_words) if part]
        numbers = frozenset(word for word in new if any(letter.isdigit() for letter in word))
        dates = _dates_said(texts)
        beginnings = {beginning: word for word in sorted(new) if (beginning := _beginning(word))}
        strength = {place: weight / math.sqrt(self.memories[place].weight) for place, weight in hit.items()}
        best = min(strength, key=lambda place: (-strength[place], place))
        added = {place: self._added(place, new, beginnings) for place in hit}
        most_added = max(added.values()) or 1.0
        explained_by = {
            word: min(self.holders[word], key=lambda place: (-hit[place] * strength[place], place))
            for word in answer_words & self.holders.keys()
        }
        new_weight = max(math.fsum(self.rare(word) for word in new), MIN_NEW_WEIGHT)
        rows = []
        for place in places:
            memory = self.memories[place]
            shared = memory.own & answer_words
            shared_new = shared & new
            together = math.fsum(self.weights[one] + self.weights[two] for one, two in memory.pairs & pairs)
            values = {
                "window_share": hit[place] / total,
                "both_shares": strength[place] / math.sqrt(total),
                "pairs": min(together / 2 / total, 1.0),
                "part_share": max(
                    (self._weight(part & memory.own) / max(self._weight(part), MIN_PART_WEIGHT) for part in parts),
                    default=0.0,
                ),
                "rare_part_share": max(
                    (self._rarity(part & memory.own) / max(self._rarity(part), MIN_RARE_PART_WEIGHT) for part in parts),
                    default=0.0,
                ),
                "new_weight": new_weight,
                "missing_numbers": float(len(numbers - memory.own)),
                "asked_share": self.asked_shares[place],
                "asked_rank": self.asked_shares[place] / self.most_asked,
                "new_rank": added[place] / most_added,
                "both_rank": strength[place] / strength[best],
                "best_explained": self._weight(word for word in shared if explained_by[word] == place) / hit[place],
                "best_alike": 1.0 if place == best else self.alike(place, best),
                "rarest": max(self.rare(word) for word in shared),
                "rarest_new": max((self.rare(word) for word in shared_new), default=0.0),
                "fewest_holders": min((float(len(self.holders[word])) for word in shared_new), default=NO_HOLDER),
                "owner": 1.0 if memory.owner & answer_words else -1.0 if self.owners & answer_words else 0.0,
                "date_near": _nearness(dates, memory.said_when),
                "says_when": float(bool(dates) and memory.says_when),
                "words": float(len(memory.texts)),
                "memories": float(len(self.memories)),
            }
            rows.append((place, values))
        return rows

    def _weight(self, words: Iterable[str]) -> float:
        # Exact, so that it is the same in whatever order a set has its words.
        return math.fsum(self.weights[word] for word in words)

    def _rarity(self, words: Iterable[str]) -> float:
        return math.fsum(self.rare(word) for word in words)

    def _added(self, place: int, new: frozenset[str], beginnings: Mapping[str, str]) -> float:
        """The new words that the memory contains, including words with the same beginning."""
        memory = self.memories[place]
        near = sum(word not in memory.own for key, word in beginnings.items() if key in memory.beginnings)
        return self._weight(new & memory.own) + PREFIX_WEIGHT * near


def _word_weights(memories: Sequence[ShownMemory]) -> defaultdict[str, float]:
    """By word, near 1 for one that a single memory holds, near 0 for one that all do; 1 for others."""
    counts = Counter(word for memory in memories for word in memory.own)
    size = len(memories)
    if size < 2:
        return defaultdict(lambda: 1.0)
    most = math.log((size + 1) / 0.5)
    weights = {word: math.log((size + 1) / (count + 0.5)) / most for word, count in counts.items()}
    return defaultdict(lambda: 1.0, weights)


def _beginning(word: str) -> str:
    return word[:PREFIX] if len(word) > PREFIX and word.isalpha() else ""


def _parts(answer: str, window: Sequence[Word], question_words: frozenset[str]) -> list[frozenset[str]]:
    """The words that the window adds to the question, split at commas, "and" and "or": an enumeration rarely refers to
    one memory alone."""
    parts: list[list[str]] = [[]]
    for place, word in enumerate(window):
        before = window[place - 1] if place else None
        if before and _PART_END.search(answer, before.end, word.start):
            parts.append([])
        parts[-1].append(word.text)
    return [frozenset(part) - question_words for part in parts]


def _owner(text: str, begins: int) -> str:
    """The speaker or subject of the memory, by its label or its beginning; "" if neither names one."""
    if speaker := _SPEAKER.match(text, begins):
        return speaker[1]
    labels = [label for label in _LABEL_TEXT.findall(text[:begins]) if not _DATE.fullmatch(label)]
    if labels:
        return str(labels[0])
    name = _FIRST_NAME.match(text, begins)
    return name[1] if name else ""


def day_of(label: str) -> date | None:
    found = _DATE.search(label)
    try:
        return date.fromisoformat(found[0]) if found else None
    except ValueError:
        return None


def _dates_said(texts: Sequence[str]) -> list[tuple[int, int, int]]:
    """Year, month and day of each month that is named, 0 for missing parts."""
    found = []
    for place, word in enumerate(texts):
        if word not in MONTH_NUMBERS:
            continue
        year = day = 0
        for beside in (place - 1, place + 1, place + 2):
            number = _NUMBER.fullmatch(texts[beside]) if 0 <= beside < len(texts) else None
            value = int(number[1]) if number else 0
            if 1900 < value < 2200:
                year = year or value
            elif 0 < value <= 31:
                day = day or value
        found.append((year, MONTH_NUMBERS[word], day))
    return found


def _nearness(dates: Sequence[tuple[int, int, int]], when: date | None) -> float:
    """3 for a day next to `when`, 2 within 8, 1 within a month, 0 beyond; -1 where there is nothing to compare."""
    gaps = []
    for year, month, day in dates:
        if when is None:
            continue
        if not day:
            gaps.append(0 if (year or when.year, month) == (when.year, when.month) else 31)
            continue
        try:
            gaps.append(abs((when - date(year or when.year, month, day)).days))
        except ValueError:
            continue
    if not gaps:
        return -1.0
    gap = min(gaps)
    return 3.0 if gap <= 1 else 2.0 if gap <= 8 else 1.0 if gap <= 31 else 0.0
