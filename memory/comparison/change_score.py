"""How likely a new fact ends an old one of the same subject, in whatever words: small trees over plain signs.

Of the words only those count that say by themselves that something is new; the other signs are what both share, how
they are built, and whether their embeddings are about the same. benchmarks/fact_pairs/fit.py fits the trees and how
embeddings are read, and writes change_model.json: numbers only, the same output on every machine.
"""

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Prefix

from memory.comparison import lexicon as w
from memory.comparison.differences import subject_of
from memory.comparison.snapshot import STEM, FactSnapshot
from memory.comparison.tokenizer import base_form
from memory.embedding.thresholds import Thresholds
from nousweb.lib.boosted_trees import BoostedTrees

FILE = Path(__file__).with_name("change_model.json")
CODES = ("number", "negation", "antonym", "name", "quantity", "time", "value", "detail")
EMBEDDED, UNKNOWN = ("topic", "ending", "change", "apart", "about"), -99.0
"""Signs of embeddings, and what each is where these are not known: below every bound of the trees."""
_SAID = {
    "now": r"\b(now|no longer|any ?more|any longer|these days|instead|from now on|used to|as of|already|finally"
    r"|recently|after all|again|since|nowadays)\b",
    "perfect": r"\b(ha[sd]|have|'ve)\s+(\w+\s)?\w+(ed|en|ne|wn|eft|ade|ut|ot)\b",
    "past": r"\b\w{2,}ed\b",
    "more": r"\b(also|too|another|as well|both|besides)\b",
}
SAID = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _SAID.items()}
_BESIDE = re.compile(r"\balso\b|\b(too|as well)(?=\W*$|,)", re.IGNORECASE)
_SPEAKER = frozenset({"i", "my", "me", "we", "our", "us"})
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChangeModel:
    """`old` and `new` read of an embedding, less the `mean` of all, what a sentence is about: near each other where one
    may end the other. `told` has two columns, how much it sounds like what ends, and like a change. `apart` weighs
    where two embeddings differ. A score over 0 asks."""

    names: tuple[str, ...]
    mean: Numbers
    old: Numbers
    new: Numbers
    told: Numbers
    apart: Numbers
    trees: BoostedTrees

    def signs(self, old: Numbers, new: Numbers) -> tuple[float, ...]:
        """What two embeddings say of how far the one is about what the other is about."""
        one, other, between = old - self.mean, new - self.mean, (old - new) @ self.apart
        topic = float((one @ self.old) @ (other @ self.new))
        ending, change = float(one @ self.told[:, 0]), float(other @ self.told[:, 1])
        return topic, ending, change, -float(between @ between), topic + ending + change + 4 * float(old @ new)


@cache
def change_model() -> ChangeModel:
    """The one that is shipped."""
    return model_of(json.loads(FILE.read_text()))


def model_of(held: Mapping[str, Any]) -> ChangeModel:
    """The model that a file holds: matrices of bytes, each with the size of one step."""

    def matrix(name: str) -> Numbers:
        numbers = np.frombuffer(b64decode(held[name]["bytes"]), np.int8).reshape(held[name]["shape"])
        return np.asarray(numbers * float(held[name]["step"]))

    mean, old, new, told, apart = map(matrix, ("mean", "old", "new", "told", "apart"))
    return ChangeModel(tuple(held["names"]), mean, old, new, told, apart, BoostedTrees.of(held["trees"]))


def change_score(old: FactSnapshot, new: FactSnapshot, codes: Set[str], cosine: float, thresholds: Thresholds) -> float:
    """The log-odds, less a bound; `codes` are of the differences, `cosine` of the embeddings of a model with these
    `thresholds`. People are asked from 0, never where nothing says that both speak of one thing, nor where the new one
    says that it is true beside others."""
    signs, model = signs_of(old, new, codes, cosine, thresholds), change_model()
    row = np.array([[float(signs[name]) for name in model.names]])
    return UNKNOWN if signs["loose"] else float(model.trees.sums(row)[0])


def signs_of(
    old: FactSnapshot, new: FactSnapshot, codes: Set[str], cosine: float, thresholds: Thresholds
) -> dict[str, float]:
    """Each about 0 to 1, besides those of the embeddings."""
    olds, news, subject = old.texts, new.texts, subject_of(old.texts)
    owner = {*map(base_form, subject or olds[:2])}
    subjects = owner | {*re.findall(r"\w+", old.subject.lower()), "user", "i", "my", "we", "our"}
    words = old.content_words - subjects, new.content_words - subjects
    shared = len(words[0] & words[1])
    common = len(old.stems & new.stems)
    named = not new.stems.isdisjoint(text[:STEM] for text in owner) or all(_SPEAKER & {*each} for each in (olds, news))
    names = [{token.text for token in fact.tokens[1:] if token.name} - subjects for fact in (old, new)]
    many = [any(base_form(text) in w.MANY_VALUED for text in each) for each in (olds, news)]
    signs: dict[str, float] = {
        "near": min((cosine - thresholds.unrelated) / (thresholds.check - thresholds.unrelated), 1.2),
        **{name: bool(one.search(new.content)) and not one.search(old.content) for name, one in SAID.items()},
        "number before": any(token.number for token in old.tokens), "number now": any(t.number for t in new.tokens),
        "begin": Prefix.similarity(olds, news) / max(1, min(len(olds), len(news))),
        "verb": bool(subject) and news[: len(subject) + 1] == olds[: len(subject) + 1],
        "names": bool(names[0] - names[1] and names[1] - names[0]), "same name": bool(names[0] & names[1]),
        "length before": len(olds), "length": len(news), "state": not {"be", "be+pl"}.isdisjoint(olds),
        "shared": shared, "of old": shared / max(1, len(words[0])), "of new": shared / max(1, len(words[1])),
        "many before": many[0], "many": many[1],
        "known": bool(old.subject.strip()), "named": named, "stems": common,
        "stems of old": common / max(1, len(old.stems)), "first": news[:1] == olds[:1],
        "loose": not (old.subject.strip() or named or common)
        or (bool(_BESIDE.search(new.content)) and w.RESTRICTIONS.isdisjoint(olds)),
        **{code: code in codes for code in CODES},
    }  # fmt: skip
    if old.vector is None or new.vector is None:
        return signs | dict.fromkeys(EMBEDDED, UNKNOWN)
    return signs | dict(zip(EMBEDDED, change_model().signs(old.vector, new.vector), strict=True))
