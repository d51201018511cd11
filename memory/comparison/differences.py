"""Where two texts differ, and when both may be true all the same: one says more, or speaks of something else."""

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
def one_slot(old: Texts, new: Texts) -> Texts:
    """The one place, of at most three words on either side, in which two texts differ; () for any other difference."""
    start = Prefix.similarity(old, new)
    end = Postfix.similarity(old[start:], new[start:])
    one, other = old[start : len(old) - end], new[start : len(new) - end]
    short = one and other and max(len(one), len(other)) <= _MAX_SLOT_WORDS and not set(one) & set(other)
    return (" ".join(one), " ".join(other)) if short else ()


def subject_of(texts: Texts) -> Texts:
    """What stands before the verb, () where that is not certain: "the build" has no ending, and is a noun."""
    return texts[: next((at for at, text in enumerate(texts) if at and text in _PREDICATES), 0)]


def adds(old: Texts, new: Texts, names: Set[str]) -> bool:
    """Whether `new` repeats a plain statement and says more: where, how, which one. What can take back, forbid, count
    or set an end is more than that, and so is one of the `names` beside a name: York, New York."""
    if base_form("".join(old[-2:-1])) == "have" and new[: len(old)] == (*old[:-2], "'s", old[-1]):  # "Ann has a cat"
        return not w.RESTRICTIONS & {*old, *new} and "be+ed" not in new
    said = {base_form(one) for one, next_ in pairwise((*new, "")) if one != "about" or next_[:1].isdigit()}
    read = w.RESTRICTIONS.isdisjoint(said) and not (VERBS.isdisjoint(old) and w.PREPOSITIONS.isdisjoint(old))
    return bool(read and 1 < len(old) < len(new) and (found := _places(old, new))) and all(
        _is_detail(old, *place, names) for place in found
    )


def _is_detail(old: Texts, place: int, gone: Texts, added: Texts, names: Set[str]) -> bool:
    before, after = "".join(old[place - 1 : place]), "".join(old[place : place + 1])
    if gone or "'s" in added or added[-1] == "," or {before, added[0]} <= names or {added[-1], after} <= names:
        return False
    numbered = len(added) == 1 and added[0][0].isdigit() and not before[-1:].isdigit()
    # A word behind a noun makes another one of it: a nurse trainer. Behind a number it says what is counted.
    behind = (not after and before not in VERBS) or any(text[0].isdigit() for text in old[max(0, place - 2) : place])
    return numbered or added[0] in w.REFINEMENTS | {"about"} or not (behind or VERBS & {*added})


def is_more_exact(old: Texts, new: Texts) -> bool:
    """Whether `new` tells a date or a version of `old` more exactly: "in March", "on 14 March"; "2", "2.4.1"."""
    slot = [[text for text in each.split() if text not in ("in", "on", "at")] for each in one_slot(old, new)]
    if [len(each) for each in slot] != [1, 1]:
        return False
    one, other = slot[0][0], slot[1][0]
    return (other[:2] == "d:" and other.split("-")[1] == w.MONTHS.get(one)) or other.startswith(f"{one}.")


def is_of_another(old: Texts, new: Texts) -> bool:
    """Whether beside the value what tells of which thing of a kind it is differs: "the morning shift", "in 2023"."""
    verb = len(subject_of(old))
    places = _places(old, new) if verb else []
    if len(places) < 2 or not all(one and other for _, one, other in places):
        return False
    begin, one, other = places[0]
    end = begin + len(one)
    told = all(text[0].isdigit() for text in one + other) or w.PREPOSITIONS & {*old[max(0, begin - 2) : begin]}
    kind = old[end] not in w.PREPOSITIONS if end < verb else told
    unsafe = (VERBS | w.PRONOUNS | w.RESTRICTIONS) & {*one, *other}
    spelled = not all(text[0].isdigit() for text in one + other) and alike([*one], [*other])
    return bool(kind) and not unsafe and not spelled and end <= verb < places[-1][0]


def is_beside(old: Texts, new: Texts) -> bool:
    """Whether two texts differ only in the object of a word that has many, and not in which one of its kind it is."""
    place, (one, other) = Prefix.similarity(old, new) - 1, [each.split() for each in one_slot(old, new)] or ([], [])
    after = "".join(old[place + 1 + len(one) :][:1])
    if place < 0 or not one or (after and after not in w.PREPOSITIONS) or alike(one, other):
        return False
    head = old[place - 1] if place and old[place] in w.PREPOSITIONS and old[place - 1] not in VERBS else old[place]
    return base_form(head) in w.MANY_VALUED and not w.PREPOSITIONS & {one[0], other[0]}


def _places(old: Texts, new: Texts) -> list[tuple[int, Texts, Texts]]:
    """The places in which two texts differ, in order: where in `old`, what it has there, and what `new` has."""
    if max(len(old), len(new)) > _MAX_WORDS:
        return []
    same = [each for each in Levenshtein.opcodes(old, new) if each.tag == "equal"]
    begins = [(0, 0), *((each.src_end, each.dest_end) for each in same)]
    ends = [*((each.src_start, each.dest_start) for each in same), (len(old), len(new))]
    both = zip(begins, ends, strict=True)
    return [(one, old[one:two], new[other:last]) for (one, other), (two, last) in both if one < two or other < last]
