"""Reading a whole sentence as `subject, attribute, value`, and when two values cannot both be held."""

import re
from dataclasses import dataclass

from rapidfuzz import fuzz

from memory.comparison import lexicon as w
from memory.comparison.attributes import FRAMES, VALUE_NOUN_PAIRS, VALUE_NOUNS, Frame
from memory.comparison.tokenizer import VERBS, Token, number_free

_LONGEST_VALUE = 6
_LONGEST_SUBJECT = 5
_HEDGES = w.QUANTIFIERS | w.MODALS | w.NEGATIONS | w.CLAUSE_WORDS
_VERSION = re.compile(r"v?\d+(\.\d+)*")


@dataclass(frozen=True, slots=True)
class Statement:
    """`update`: the sentence says itself that the value is new."""

    subject: tuple[str, ...]
    attribute: str
    value: tuple[Token, ...]
    update: bool = False
    closed: bool = False

    @property
    def value_texts(self) -> tuple[str, ...]:
        return tuple(token.text for token in self.value)


def statements_of(tokens: list[Token]) -> list[Statement]:
    """Every way in which the whole sentence says one attribute of one subject; [] for anything else."""
    tokens = [token for token in tokens if token.text not in w.ARTICLES]
    texts = number_free(token.text for token in tokens)
    if not 3 <= len(texts) <= 2 + _LONGEST_VALUE + _LONGEST_SUBJECT + 6 or {"|", "?", ","} & set(texts):
        return []
    found = [statement for frame in FRAMES if (statement := _framed(tokens, texts, frame))]
    for statement in (_value_noun(tokens, texts), _age(tokens, texts)):
        if statement:
            found.append(statement)
    return found


def _framed(tokens: list[Token], texts: tuple[str, ...], frame: Frame) -> Statement | None:
    size = len(frame.words)
    places = [place for place in range(1, len(texts) - size) if texts[place : place + size] == frame.words]
    if len(places) != 1:
        return None
    subject, rest = texts[: places[0]], tokens[places[0] + size :]
    tail: tuple[str, ...] = ()
    if frame.tail:
        cuts = [place for place, token in enumerate(rest) if token.text == frame.tail]
        if len(cuts) != 1:
            return None
        tail = tuple(token.text for token in rest[cuts[0] + 1 :])
        rest = rest[: cuts[0]]
        if not tail or not _plain(tail):
            return None
    if not _is_subject(subject) or not _is_value(rest):
        return None
    return Statement(subject, " ".join((frame.attribute, *tail)), tuple(rest), frame.update, frame.closed)


def _value_noun(tokens: list[Token], texts: tuple[str, ...]) -> Statement | None:
    if texts.count("be") != 1:
        return None
    place = texts.index("be")
    left, rest = texts[:place], tokens[place + 1 :]
    if left.count("of") == 1 and "'s" not in left:
        left = (*left[left.index("of") + 1 :], *left[: left.index("of")])
    update = bool(rest) and rest[0].text == "now"
    rest = rest[1:] if update else rest
    if left[-2:] in VALUE_NOUN_PAIRS:
        noun, subject = " ".join(left[-2:]), left[:-2]
    elif left and left[-1] in VALUE_NOUNS:
        noun, subject = left[-1], left[:-1]
    else:
        return None
    subject = tuple(text for text in subject if text != "'s")
    if rest and rest[0].text in ("in", "on", "at"):
        rest = rest[1:]
    if not _is_subject(subject) or not _is_value(rest):
        return None
    return Statement(subject, noun, tuple(rest), update)


def _age(tokens: list[Token], texts: tuple[str, ...]) -> Statement | None:
    """`S is N years old`."""
    if texts[-2:] != ("year", "old") or len(texts) < 5 or texts[-4] not in ("be", "now") or "be" not in texts:
        return None
    update = texts[-4] == "now"
    subject = texts[: -5 if update else -4]
    if texts[len(subject)] != "be" or not tokens[-3].number or not _is_subject(subject):
        return None
    return Statement(subject, "age", tuple(tokens[-3:]), update)


def _plain(texts: tuple[str, ...]) -> bool:
    return not set(texts) & (_HEDGES | w.PREPOSITIONS)


def _is_subject(texts: tuple[str, ...]) -> bool:
    return 0 < len(texts) <= _LONGEST_SUBJECT and not set(texts) & (_HEDGES | VERBS | w.PREPOSITIONS | {"now"})


def _is_value(tokens: list[Token]) -> bool:
    texts = {token.text for token in tokens}
    # One word alone is a value even where it is the form of a verb: "closed".
    verbs = VERBS if len(tokens) > 1 else frozenset({"be", "have"})
    return 0 < len(tokens) <= _LONGEST_VALUE and not texts & (
        _HEDGES | verbs | (w.PREPOSITIONS - {"per"}) | {"now", "'s", "be+ed", "have+ed"}
    )


def exclusive(old: tuple[Token, ...], new: tuple[Token, ...], *, said: bool, closed: bool = False) -> bool:
    """Whether a subject with one value cannot have both. `said`: the new fact says itself that it is a change.
    `closed`: only words that exclude each other by their nature count.

    Certain for numbers of one unit, dates, times, weekdays, words of a set that excludes, and names that can
    hardly be the same thing. Never when one value is part of the other.
    """
    olds, news = [token.text for token in old], [token.text for token in new]
    if not closed and old[0].number and new[0].number:
        return olds[1:] == news[1:] and _numbers_exclude(olds[0], news[0])
    if any(token.number for token in (*old, *new)) or set(olds) & set(news):
        return False
    pair = {old[0].raw.casefold(), new[0].raw.casefold()} if len(old) == len(new) == 1 else set()
    excluding = len(pair) == 2 and pair != {"vegan", "vegetarian"} and any(pair <= each for each in w.EXCLUSIVE_SETS)
    if excluding or closed:
        return excluding
    if (set(olds) | set(news)) & w.REGIONS or _alike(olds, news):
        return False
    names = all(token.raw[:1].isupper() for token in (*old, *new))
    return names or said


def _numbers_exclude(one: str, other: str) -> bool:
    if one == other or (one[:2] != other[:2] and (one[:2] in ("d:", "t:") or other[:2] in ("d:", "t:"))):
        return False
    if "?" in one or "?" in other:
        # A year or a half of the day that only one of them names may be meant by both.
        return ("?" in one) == ("?" in other) and one[2:] != other[2:]
    if one[:2] in ("d:", "t:"):
        return True
    if not (_VERSION.fullmatch(one) and _VERSION.fullmatch(other)):
        return False
    longer, shorter = sorted((one.removeprefix("v"), other.removeprefix("v")), key=len, reverse=True)
    # 1.2.3 tells 1.2 more exactly, and so does 5.0 tell 5.
    return not (longer == shorter or longer.startswith(f"{shorter}."))


def _alike(olds: list[str], news: list[str]) -> bool:
    """Whether two names may mean the same: a nickname, an abbreviation, another spelling."""
    for group in w.NICKNAMES:
        if group & set(olds) and group & set(news):
            return True
    one, other = "".join(olds), "".join(news)
    if min(len(one), len(other)) <= 2 or one in other or other in one or fuzz.ratio(one, other) >= 70:
        return True
    return "".join(text[0] for text in olds) == other or "".join(text[0] for text in news) == one
