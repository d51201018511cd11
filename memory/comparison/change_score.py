"""How likely a new fact ends an old one of the same subject, in whatever words: small trees over plain signs.

Of the words only those count that say by themselves that something is new; the other signs are what both share, how
they are built, and whether their embeddings are about the same. benchmarks/fact_pairs/fit.py fits the trees and how
embeddings are read, and writes change_model.json: numbers only, the same output on every machine.
"""

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Prefix

from memory.comparison import lexicon as w
from memory.comparison.cross_encoder import CHARACTERS, cross_scores, sentence_of
from memory.comparison.differences import subject_of
from memory.comparison.snapshot import STEM, FactSnapshot
from memory.comparison.tokenizer import base_form
from memory.embedding.thresholds import Thresholds
from nousweb.lib.boosted_trees import BoostedTrees

FILE = Path(__file__).with_name("change_model.json")
CODES = ("number", "negation", "antonym", "name", "quantity", "time", "value", "detail")
EMBEDDED, UNKNOWN = ("topic", "ending", "change", "apart", "about"), -99.0
"""Signs of embeddings, and what each is where these are not known: below every bound of the trees."""
DOUBT, NEAR = -3.0, 0.2
"""From which score of the trees the cross-encoder is asked, and from which cosine where they read nothing."""
MIN_WORDS = 3
"""Words that a new fact has for the cross-encoder to read it."""
BOTH_TRUE_BELOW = -2.0
"""Below these log-odds of the cross-encoder both are true, though their words differ. No labelled pair that changes and
that words alone ask about lies below."""
CROSS_SHARE, LEAST, CROSS_BOUND = 0.7, -1.5, -1.1
"""Share of the cross-encoder's log-odds in the score; the least that trees say against it; and the bound of both."""
_SAID = {
    "now": r"\b(now|no longer|any ?more|any longer|these days|instead|from now on|used to|as of|already|finally"
    r"|recently|after all|again|since|nowadays)\b",
    "perfect": r"\b(ha[sd]|have|'ve)\s+(\w+\s)?\w+(ed|en|ne|wn|eft|ade|ut|ot)\b",
    "past": r"\b\w{2,}ed\b",
    "more": r"\b(also|too|another|as well|both|besides)\b",
}
SAID = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _SAID.items()}
_BESIDE = re.compile(r"\balso\b|\b(too|as well)(?=\W*$|,)", re.IGNORECASE)
_STATES = frozenset({"be", "be+pl"})
_SPEAKER = frozenset({"i", "my", "me", "we", "our", "us"})
Numbers = NDArray[np.float64]
Pair = tuple[FactSnapshot, FactSnapshot, Set[str], float, Thresholds]
"""What `change_scores` is given of each: old, new, `codes`, `cosine`, `thresholds`."""


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

    def read(self, vector: Numbers) -> "Reading":
        """What an embedding says by itself."""
        centred = vector - self.mean
        told = centred @ self.told
        return Reading(
            vector, centred @ self.old, centred @ self.new, float(told[0]), float(told[1]), vector @ self.apart
        )

    def signs(self, old: "Reading", new: "Reading") -> tuple[float, ...]:
        """What two embeddings say of how far the one is about what the other is about."""
        topic, between = float(old.as_old @ new.as_new), old.apart - new.apart
        about = topic + old.ending + new.change + 4 * float(old.vector @ new.vector)
        return topic, old.ending, new.change, -float(between @ between), about


@dataclass(frozen=True, slots=True)
class Reading:
    """An embedding as a ChangeModel reads it: what it is about as the old one of two and as the new one, how much it
    sounds like what ends and like a change, and where it may differ from others."""

    vector: Numbers
    as_old: Numbers
    as_new: Numbers
    ending: float
    change: float
    apart: Numbers


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


def change_scores(pairs: Sequence[Pair]) -> list[float]:
    """The log-odds of each, less a bound; `codes` are of the differences, `cosine` of the embeddings of a model with
    these `thresholds`. People are asked from 0, never where nothing says that both speak of one thing, nor where the
    new one says that it is true beside others. The trees read all of them at once, and the cross-encoder what they
    leave in doubt."""
    model, scores = change_model(), [UNKNOWN] * len(pairs)
    signs = [signs_of(*pair) for pair in pairs]
    asked = [place for place, each in enumerate(signs) if not each["loose"]]
    if asked:
        rows = np.array([[signs[place][name] for name in model.names] for place in asked], float)
        for place, score in zip(asked, model.trees.sums(rows), strict=True):
            scores[place] = float(score)
    doubted = [place for place, pair in enumerate(pairs) if _is_doubted(pair, signs[place], scores[place])]
    for place, score in zip(doubted, cross_scores([pairs[place][:2] for place in doubted]), strict=True):
        scores[place] = (1 - CROSS_SHARE) * max(scores[place], LEAST) + CROSS_SHARE * score - CROSS_BOUND
    return scores


def _is_doubted(pair: Pair, signs: Mapping[str, float], score: float) -> bool:
    """Whether the cross-encoder is asked: both embeddings are known, and the new fact does not say that it is true
    beside others. Where no word for a thing is shared, the trees read nothing, and both have to be near. Two words or
    less say too little of a change: it has learned from sentences."""
    old, new, _, cosine, _ = pair
    near = score >= DOUBT if score != UNKNOWN else cosine >= NEAR
    return near and _is_readable(old, new) and not signs["beside"]


def _is_readable(old: FactSnapshot, new: FactSnapshot) -> bool:
    return old.vector is not None and new.vector is not None and len(new.texts) >= MIN_WORDS


def both_true(pairs: Sequence[tuple[FactSnapshot, FactSnapshot]]) -> list[bool]:
    """Of each pair whether the cross-encoder is sure that neither ends nor repeats the other.

    It is not asked where it would not read both whole, nor where one says a word of change or a condition, such as
    "instead" or "only when".
    """
    held = [False] * len(pairs)
    read = [
        place
        for place, (old, new) in enumerate(pairs)
        if _is_readable(old, new)
        and not _sentence(new).said["now"]
        and w.CONDITIONS.isdisjoint(old.texts + new.texts)
        and all(len(sentence_of(fact, whole=True)) <= CHARACTERS for fact in (old, new))
    ]
    for place, score in zip(read, cross_scores([pairs[place] for place in read]), strict=True):
        held[place] = score < BOTH_TRUE_BELOW
    return held


class _Sentence:
    """What a fact says by itself, each thing read when it is first asked for."""

    def __init__(self, fact: FactSnapshot) -> None:
        self._fact = fact

    @cached_property
    def said(self) -> dict[str, bool]:
        return {name: bool(one.search(self._fact.content)) for name, one in SAID.items()}

    @cached_property
    def beside(self) -> bool:
        return bool(_BESIDE.search(self._fact.content))

    @cached_property
    def restricted(self) -> bool:
        return not w.RESTRICTIONS.isdisjoint(self._fact.texts)

    @cached_property
    def subject(self) -> tuple[str, ...]:
        return subject_of(self._fact.texts)

    @cached_property
    def owner(self) -> frozenset[str]:
        return frozenset(map(base_form, self.subject or self._fact.texts[:2]))

    @cached_property
    def owner_stems(self) -> frozenset[str]:
        return frozenset(text[:STEM] for text in self.owner)

    @cached_property
    def subjects(self) -> frozenset[str]:
        return self.owner | {*re.findall(r"\w+", self._fact.subject.lower()), "user", "i", "my", "we", "our"}

    @cached_property
    def has_number(self) -> bool:
        return any(token.number for token in self._fact.tokens)

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(token.text for token in self._fact.tokens[1:] if token.name)

    @cached_property
    def has_many(self) -> bool:
        return any(base_form(text) in w.MANY_VALUED for text in self._fact.texts)

    @cached_property
    def speaks(self) -> bool:
        return not _SPEAKER.isdisjoint(self._fact.texts)

    @cached_property
    def is_state(self) -> bool:
        return not _STATES.isdisjoint(self._fact.texts)

    @cached_property
    def own_words(self) -> frozenset[str]:
        return self._fact.content_words - self.subjects

    @cached_property
    def reading(self) -> Reading | None:
        return None if self._fact.vector is None else change_model().read(self._fact.vector)


def _sentence(fact: FactSnapshot) -> _Sentence:
    if "sentence" not in fact.memo:
        fact.memo["sentence"] = _Sentence(fact)
    return cast("_Sentence", fact.memo["sentence"])


def signs_of(
    old: FactSnapshot, new: FactSnapshot, codes: Set[str], cosine: float, thresholds: Thresholds
) -> dict[str, float]:
    """Each about 0 to 1, besides those of the embeddings."""
    olds, news, one, other = old.texts, new.texts, _sentence(old), _sentence(new)
    subject, subjects = one.subject, one.subjects
    words = one.own_words, new.content_words - subjects
    shared = len(words[0] & words[1])
    common = len(old.stems & new.stems)
    named = not new.stems.isdisjoint(one.owner_stems) or (one.speaks and other.speaks)
    names = one.names - subjects, other.names - subjects
    has_subject, beside = bool(old.subject.strip()), other.beside and not one.restricted
    signs: dict[str, float] = {
        "near": min((cosine - thresholds.unrelated) / (thresholds.check - thresholds.unrelated), 1.2),
        **{name: said and not one.said[name] for name, said in other.said.items()},
        "number before": one.has_number, "number now": other.has_number,
        "begin": Prefix.similarity(olds, news) / max(1, min(len(olds), len(news))),
        "verb": bool(subject) and news[: len(subject) + 1] == olds[: len(subject) + 1],
        "names": bool(names[0] - names[1] and names[1] - names[0]), "same name": bool(names[0] & names[1]),
        "length before": len(olds), "length": len(news), "state": one.is_state,
        "shared": shared, "of old": shared / max(1, len(words[0])), "of new": shared / max(1, len(words[1])),
        "many before": one.has_many, "many": other.has_many,
        "known": has_subject, "named": named, "stems": common,
        "stems of old": common / max(1, len(old.stems)), "first": news[:1] == olds[:1],
        "loose": not (has_subject or named or common) or beside, "beside": beside,
        **{code: code in codes for code in CODES},
    }  # fmt: skip
    if one.reading is None or other.reading is None:
        return signs | dict.fromkeys(EMBEDDED, UNKNOWN)
    return signs | dict(zip(EMBEDDED, change_model().signs(one.reading, other.reading), strict=True))
