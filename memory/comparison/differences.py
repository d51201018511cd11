"""Differences of two texts, and differences with which both can be true: more details, or another instance."""

from collections.abc import Set
from functools import lru_cache
from itertools import pairwise

from rapidfuzz.distance import Levenshtein, Postfix, Prefix

from memory.comparison import lexicon as w
from memory.comparison.statements import alike
from memory.comparison.tokenizer import VERBS, base_form

_MAX_WORDS, _MAX_SLOT_WORDS = 40, 3
_PREDICATES = w.MODALS | w.NEGATIONS | {text for text in VERBS if "+" in text or text == "be"}
Texts = tuple[str, ...]


@lru_cache(maxsize=256)
def single_difference(old: Texts, new: Texts) -> Texts:
    """The only difference of two texts as (old, new), if it has at most three words on each side; else ()."""
    start = Prefix.similarity(old, new)
    end = Postfix.similarity(old[start:], new[start:])
    one, other = old[start : len(old) - end], new[start : len(new) - end]
    short = one and other and max(len(one), len(other)) <= _MAX_SLOT_WORDS and not set(one) & set(other)
    return (" ".join(one), " ".join(other)) if short else ()


def words_before_verb(texts: Texts) -> Texts:
    """Words before the main verb, or () if the verb is ambiguous (e.g. "build", which is a noun too)."""
    return texts[: next((at for at, text in enumerate(texts) if at and text in _PREDICATES), 0)]


def only_adds_details(old: Texts, new: Texts, names: Set[str]) -> bool:
    """Whether `new` repeats a plain statement and only adds details: where, how, which one.

    Words that can negate, forbid, count or end something are no details, nor is one of `names` beside a name ("York",
    "New York").
    """
    if base_form("".join(old[-2:-1])) == "have" and new[: len(old)] == (*old[:-2], "'s", old[-1]):  # "Ann has a cat"
        return not w.RESTRICTIONS & {*old, *new} and "be+ed" not in new
    words = {base_form(one) for one, next_ in pairwise((*new, "")) if one != "about" or next_[:1].isdigit()}
    read = w.RESTRICTIONS.isdisjoint(words) and not (VERBS.isdisjoint(old) and w.PREPOSITIONS.isdisjoint(old))
    return bool(read and 1 < len(old) < len(new) and (differences := _places(old, new))) and all(
        _is_detail(old, *place, names) for place in differences
    )


def _is_detail(old: Texts, place: int, gone: Texts, added: Texts, names: Set[str]) -> bool:
    before, after = "".join(old[place - 1 : place]), "".join(old[place : place + 1])
    if gone or "'s" in added or added[-1] == "," or {before, added[0]} <= names or {added[-1], after} <= names:
        return False
    numbered = len(added) == 1 and added[0][0].isdigit() and not before[-1:].isdigit()
    # A word after a noun forms another noun ("a nurse trainer"). After a number it names what is counted.
    behind = (not after and before not in VERBS) or any(text[0].isdigit() for text in old[max(0, place - 2) : place])
    return numbered or added[0] in w.REFINEMENTS | {"about"} or not (behind or VERBS & {*added})


def is_more_exact(old: Texts, new: Texts) -> bool:
    """Whether `new` states a date or a version of `old` more precisely: "in March", "on 14 March"; "2", "2.4.1"."""
    slot = [[text for text in each.split() if text not in ("in", "on", "at")] for each in single_difference(old, new)]
    if [len(each) for each in slot] != [1, 1]:
        return False
    one, other = slot[0][0], slot[1][0]
    return (other[:2] == "d:" and other.split("-")[1] == w.MONTHS.get(one)) or other.startswith(f"{one}.")


def is_other_instance(old: Texts, new: Texts) -> bool:
    """Whether the texts also differ in a qualifier that identifies another instance: "the morning shift", "in 2023"."""
    verb = len(words_before_verb(old))
    places = _places(old, new) if verb else []
    if len(places) < 2 or not all(one and other for _, one, other in places):
        return False
    begin, one, other = places[0]
    end = begin + len(one)
    is_qualifier = all(text[0].isdigit() for text in one + other) or w.PREPOSITIONS & {*old[max(0, begin - 2) : begin]}
    kind = old[end] not in w.PREPOSITIONS if end < verb else is_qualifier
    unsafe = (VERBS | w.PRONOUNS | w.RESTRICTIONS) & {*one, *other}
    spelled = not all(text[0].isdigit() for text in one + other) and alike([*one], [*other])
    return bool(kind) and not unsafe and not spelled and end <= verb < places[-1][0]


def is_other_object(old: Texts, new: Texts) -> bool:
    """Whether the texts differ only in one object of a multi-valued word, so that both can be true: "likes tea", "likes
    coffee"."""
    place = Prefix.similarity(old, new) - 1
    one, other = [each.split() for each in single_difference(old, new)] or ([], [])
    after = "".join(old[place + 1 + len(one) :][:1])
    if place < 0 or not one or (after and after not in w.PREPOSITIONS) or alike(one, other):
        return False
    head = old[place - 1] if place and old[place] in w.PREPOSITIONS and old[place - 1] not in VERBS else old[place]
    return base_form(head) in w.MANY_VALUED and not w.PREPOSITIONS & {one[0], other[0]}


def _places(old: Texts, new: Texts) -> list[tuple[int, Texts, Texts]]:
    """The differences of two texts, in order: index in `old`, words of `old` there, and words of `new`."""
    if max(len(old), len(new)) > _MAX_WORDS:
        return []
    same = [each for each in Levenshtein.opcodes(old, new) if each.tag == "equal"]
    begins = [(0, 0), *((each.src_end, each.dest_end) for each in same)]
    ends = [*((each.src_start, each.dest_start) for each in same), (len(old), len(new))]
    both = zip(begins, ends, strict=True)
    return [(one, old[one:two], new[other:last]) for (one, other), (two, last) in both if one < two or other < last]
