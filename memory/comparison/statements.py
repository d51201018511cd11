"""Parse a sentence as `subject, attribute, value`, and decide whether two values exclude each other."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, product

from rapidfuzz import fuzz

from memory.comparison import lexicon as w
from memory.comparison.tokenizer import VERBS, Token, number_free

_MAX_SUBJECT, _MAX_VALUE, _MAX_WORDS = 5, 6, 19
_HEDGES = w.QUANTIFIERS | w.MODALS | w.NEGATIONS | w.CLAUSE_WORDS
_NOT_IN_SUBJECT = _HEDGES | VERBS | w.PREPOSITIONS
_NOT_IN_VALUE = _HEDGES | (w.PREPOSITIONS - {"per"}) | {"be", "have", "'s", "be+ed", "have+ed"}
_VERSION = re.compile(r"v?\d+(\.\d+)*")


@dataclass(frozen=True, slots=True)
class Statement:
    """`key`: subject and attribute. `update`: the sentence says itself that the value is new. `closed`: the subject can
    have many of these, so only values that exclude each other by their nature are a change."""

    key: tuple[tuple[str, ...], str]
    value: tuple[Token, ...]
    update: bool = False
    closed: bool = field(default=False, compare=False)


def statements_of(tokens: list[Token]) -> list[Statement]:
    """Every way in which the whole sentence says one attribute of one subject; [] for anything else."""
    said = [token.text for token in tokens]
    kept = tuple(token for token in tokens if token.text not in w.ARTICLES | {"now"})
    if not 3 <= len(kept) <= _MAX_WORDS or {"|", "?", ","} & set(said):
        return []
    texts, definite = number_free(token.text for token in kept), ("be", "the") in pairwise(said)
    read = (*_phrase_statements(kept, texts), *_noun_statements(kept, texts, definite))
    return [replace(each, update=each.update or "now" in said) for each in read if _is_plain(each)]


def _is_plain(statement: Statement) -> bool:
    """Whether subject and value are names of things and no clauses of their own."""
    subject, value = statement.key[0], [token.text for token in statement.value]
    # One word alone is a value even where it is the form of a verb: "closed".
    unfit = _NOT_IN_VALUE | VERBS if len(value) > 1 else _NOT_IN_VALUE
    sized = 0 < len(subject) <= _MAX_SUBJECT and 0 < len(value) <= _MAX_VALUE
    return sized and not set(subject) & _NOT_IN_SUBJECT and not set(value) & unfit


def _phrase_statements(tokens: tuple[Token, ...], texts: tuple[str, ...]) -> Iterator[Statement]:
    """`S lives in V`; `S uses V for Y` says what S uses for Y."""
    for place, size in product(range(1, len(texts)), range(1, 5)):
        if attribute := w.ATTRIBUTE_PHRASES.get("_".join(texts[place : place + size])):
            value, rest = tokens[place + size :], texts[place + size :]
            cut = rest.index("for") if "for" in rest else len(rest)
            closed = cut == len(rest) and attribute in ("preferred", "tool")
            update = texts[place] == "have" or texts[place].endswith("+ed")
            yield Statement((texts[:place], " ".join((attribute, *rest[cut + 1 :]))), value[:cut], update, closed)


def _noun_statements(tokens: tuple[Token, ...], texts: tuple[str, ...], definite: bool) -> Iterator[Statement]:
    """`S's N is V`, `the N of S is V`, `V is S's N`, `V is the N of S`, `S is 34 years old`."""
    if texts.count("be") != 1:
        return
    place = texts.index("be")
    left, right, value = texts[:place], texts[place + 1 :], tokens[place + 1 :]
    if right[1:] == ("year", "old") and value[0].number:
        yield Statement((left, "age"), value)
    swapped = not {"'s", "of"} & set(left) and ("'s" in right or (definite and "of" in right))
    if swapped:
        left, value = right, tokens[:place]
    if left.count("of") == 1 and "'s" not in left:
        left = (*left[left.index("of") + 1 :], "'s", *left[: left.index("of")])
    size = next((size for size in (2, 1) if "_".join(left[-size:]) in w.ATTRIBUTE_NOUNS), 0)
    if size:
        subject = tuple(text for text in left[:-size] if text != "'s")
        value = value[1:] if value and value[0].text in ("in", "on", "at") else value
        yield Statement((subject, " ".join(left[-size:])), value, closed=swapped)
    elif left.count("'s") == 1:
        place = left.index("'s")
        yield Statement((left[:place], " ".join(left[place + 1 :])), value, closed=True)


def exclusive(old: Statement, new: Statement) -> bool:
    """Whether a subject cannot have the values of both: numbers of one unit, dates, times, words that exclude each
    other, and names that can hardly be the same thing. Never when one value is part of the other."""
    olds, news = ([token.text for token in each.value] for each in (old, new))
    closed = old.closed or new.closed
    if not closed and old.value[0].number and new.value[0].number:
        return olds[1:] == news[1:] and _numbers_exclude(olds[0], news[0])
    if any(token.number for token in (*old.value, *new.value)) or set(olds) & set(news):
        return False
    kinds = {w.EXCLUSIVE_VALUES.get(" ".join(token.raw.casefold() for token in each.value)) for each in (old, new)}
    excluding = len(kinds) == 1 and None not in kinds
    if closed or excluding:
        return excluding
    names = all(token.raw[:1].isupper() for token in (*old.value, *new.value))
    return (names or new.update) and not {*olds, *news} & w.REGIONS and not alike(olds, news)


def _numbers_exclude(one: str, other: str) -> bool:
    if one[:2] in ("d:", "t:") and one[:2] == other[:2]:
        # A year or a half of the day that only one of them names may be meant by both.
        return one != other and ("?" in one) == ("?" in other)
    longer, shorter = sorted((one.removeprefix("v"), other.removeprefix("v")), key=len, reverse=True)
    # 1.2.3 tells 1.2 more exactly, and so does 5.0 tell 5.
    versions = _VERSION.fullmatch(one) and _VERSION.fullmatch(other)
    return bool(versions) and longer != shorter and not longer.startswith(f"{shorter}.")


def alike(olds: list[str], news: list[str]) -> bool:
    """Whether two names may mean the same: an abbreviation, another spelling."""
    (one, one_letters), (other, other_letters) = (("".join(each), "".join(t[0] for t in each)) for each in (olds, news))
    spelled = min(len(one), len(other)) <= 2 or one in other or other in one or fuzz.ratio(one, other) >= 70
    return spelled or one == other_letters or other == one_letters
