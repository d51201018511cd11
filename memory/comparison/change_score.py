"""How likely a new fact ends an old one of the same subject, in whatever words: a sum of plain signs.

benchmarks/fact_pairs/fit.py fits the weights. Of the words only those count that say by themselves that something is
new; the other signs are how near the embeddings are, how both sentences are built, and what they share.
"""

import re
from collections.abc import Set

from memory.comparison.differences import subject_of
from memory.comparison.snapshot import FactSnapshot
from memory.comparison.tokenizer import base_form

WEIGHTS = {
    "bias": -0.2, "near": 3.46, "nearer": 1.53, "unit": 2.6, "now": 3.7, "perfect": 1.06, "past": 1.07, "event": -0.56,
    "more": -2.96, "begin": -1.37, "verb": -2.63, "owned": -0.82, "loose": -3.99, "names": 0.62, "length": -3.71,
    "state": 0.5, "negation": 2.16, "time": 0.72, "detail": -3.66,
}  # fmt: skip
"""People are asked from a sum of 0. `state` is lower than fitted (1.1): what is said of a person who
"is a pilot" is rarely a change, and a question that need not be costs a person more than the fit knows."""
_NEW = re.compile(
    r"\b(now|no longer|any ?more|any longer|these days|instead|from now on|used to|as of|already|finally|recently"
    r"|after all|again|since)\b",
    re.IGNORECASE,
)
_PERFECT = re.compile(r"\b(ha[sd]|have|'ve)\s+(\w+\s)?\w+(ed|en|ne|wn|eft|ade|ut|ot)\b", re.IGNORECASE)
_PAST = re.compile(r"\b\w{2,}ed\b")
_MORE = re.compile(r"\b(also|too|another|as well|both|besides)\b", re.IGNORECASE)


def change_score(old: FactSnapshot, new: FactSnapshot, codes: Set[str], nearness: float) -> float:
    """The weighed sum; `codes` are of the differences, `nearness` 0 for an unrelated cosine and 1 for a close one."""
    return sum(WEIGHTS[name] * value for name, value in signs_of(old, new, codes, nearness).items())


def signs_of(old: FactSnapshot, new: FactSnapshot, codes: Set[str], nearness: float) -> dict[str, float]:
    """Each about 0 to 1."""
    olds, news, subject = old.texts, new.texts, subject_of(old.texts)
    owner = {*map(base_form, subject or olds[:2])}
    subjects = owner | {*re.findall(r"\w+", old.subject.lower()), "user", "i", "my"}
    shared = (old.content_words & new.content_words) - subjects
    units = [{token.text for token in fact.tokens if token.number and token.text.isalpha()} for fact in (old, new)]
    names = [{token.text for token in fact.tokens[1:] if token.name} - subjects for fact in (old, new)]

    def added(pattern: re.Pattern[str]) -> bool:
        return bool(pattern.search(new.content)) and not pattern.search(old.content)

    now, past = added(_NEW), added(_PAST)
    return {
        "bias": 1.0,
        "near": nearness,
        "nearer": 0.0 if shared else max(0.0, nearness - 0.6),
        "unit": not units[0].isdisjoint(units[1]),
        "now": now,
        "perfect": added(_PERFECT),
        "past": past,
        "event": past and not shared and not now,
        "more": bool(_MORE.search(new.content)),
        "begin": olds[:1] == news[:1],
        "verb": bool(subject) and news[: len(subject) + 1] == olds[: len(subject) + 1],
        "owned": "'s" in news and "'s" not in olds,
        "loose": not old.subject.strip() and owner.isdisjoint(map(base_form, news[:3])),
        "names": bool(names[0] - names[1] and names[1] - names[0]),
        "length": min(len(olds), 20) / 10,
        "state": not {"be", "be+pl"}.isdisjoint(olds),
        # What is denied has to be what was said.
        "negation": "negation" in codes and bool(shared),
        **{code: code in codes for code in ("time", "detail")},
    }
