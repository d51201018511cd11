"""The phrases that an answer shares with a memory, by which it is cited: contiguous words of content, or a number with
its unit. A single word that happens to occur in both is no evidence of where the answer's words come from."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from context.feedback.content_words import MONTH_NUMBERS, Word

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


@dataclass(frozen=True, slots=True)
class Phrase:
    """Positions of the first token of a phrase and behind its last one."""

    begin: int
    end: int


def shared_phrases(answer: Sequence[Token], memory: Sequence[Token]) -> list[Phrase]:
    """The phrases of the answer that stand in the memory too, in order, each as long as it can be from its begin on."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, token in enumerate(memory):
        if len(places[token.text]) < MAX_PLACES:
            places[token.text].append(place)
    found: list[Phrase] = []
    for begin, token in enumerate(answer):
        if found and begin < found[-1].end:
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
            found.append(Phrase(begin, end))
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
