"""Differences of two texts, and differences with which both can be true: more details, or another instance."""

from collections.abc import Set
from functools import lru_cache
from itertools import pairwise

from rapidfuzz.distance import Levenshtein, Postfix, Prefix

from memory.comparison import lexicon as w
from memory.comparison.tokenizer import VERBS, base_form

_MAX_WORDS, _MAX_SLOT_WORDS = 40, 3
Texts = tuple[str, ...]


@lru_cache(maxsize=256)
def single_difference(old: Texts, new: Texts) -> Texts:
    """The only difference of two texts as (old, new), if it has at most three words on each side; else ()."""
    start = Prefix.similarity(old, new)
    end = Postfix.similarity(old[start:], new[start:])
    one, other = old[start : len(old) - end], new[start : len(new) - end]
    short = one and other and max(len(one), len(other)) <= _MAX_SLOT_WORDS and not set(one) & set(other)
    return (" ".join(one), " ".join(other)) if short else ()


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


def _places(old: Texts, new: Texts) -> list[tuple[int, Texts, Texts]]:
    """The differences of two texts, in order: index in `old`, words of `old` there, and words of `new`."""
    if max(len(old), len(new)) > _MAX_WORDS:
        return []
    same = [each for each in Levenshtein.opcodes(old, new) if each.tag == "equal"]
    begins = [(0, 0), *((each.src_end, each.dest_end) for each in same)]
    ends = [*((each.src_start, each.dest_start) for each in same), (len(old), len(new))]
    both = zip(begins, ends, strict=True)
    return [(one, old[one:two], new[other:last]) for (one, other), (two, last) in both if one < two or other < last]
