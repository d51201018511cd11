"""Score how likely a new fact contradicts or ends an old one of the same subject: boosted trees over simple features.

The only features of single words are words that express a change by themselves. Other features are the shared words,
the sentence structure, and whether the embeddings have the same topic. benchmarks/fact_pairs/fit.py fits the trees and
the projections of embeddings, and writes change_model.json: numbers only, the same output on every machine.
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
from memory.comparison.differences import words_before_verb
from memory.comparison.fact_snapshot import STEM, FactSnapshot
from memory.comparison.tokenizer import base_form
from memory.embedding.thresholds import Thresholds
from nousweb.lib.boosted_trees import BoostedTrees

FILE = Path(__file__).with_name("change_model.json")
CODES = ("number", "negation", "antonym", "name", "quantity", "time", "value", "detail")
EMBEDDING_FEATURES, UNKNOWN = ("topic", "ending", "change", "apart", "about"), -99.0
"""Names of the embedding features, and their value without embeddings: below every threshold of the trees."""
DOUBT, NEAR = -3.0, 0.2
"""The cross-encoder is used from this score of the trees on, or from this cosine on for pairs without a score."""
MIN_WORDS = 3
"""Minimum number of words of a new fact for the cross-encoder."""
BOTH_TRUE_BELOW = -2.0
"""Below these log-odds of the cross-encoder, both facts are true although their words differ. No labelled changed pair
that a comparison of words alone would review is below."""
CROSS_SHARE, MIN_TREE_SCORE, CROSS_BOUND = 0.7, -1.5, -1.1
"""Weight of the cross-encoder's log-odds in the score; minimum score of the trees in the sum; and its threshold."""
_CHANGE_WORDS = {
    "now": r"\b(now|no longer|any ?more|any longer|these days|instead|from now on|used to|as of|already|finally"
    r"|recently|after all|again|since|nowadays)\b",
    "perfect": r"\b(ha[sd]|have|'ve)\s+(\w+\s)?\w+(ed|en|ne|wn|eft|ade|ut|ot)\b",
    "past": r"\b\w{2,}ed\b",
    "more": r"\b(also|too|another|as well|both|besides)\b",
}
CHANGE_WORDS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _CHANGE_WORDS.items()}
_BESIDE = re.compile(r"\balso\b|\b(too|as well)(?=\W*$|,)", re.IGNORECASE)
_STATES = frozenset({"be", "be+pl"})
_SPEAKER = frozenset({"i", "my", "me", "we", "our", "us"})
Numbers = NDArray[np.float64]
Pair = tuple[FactSnapshot, FactSnapshot, Set[str], float, Thresholds]
"""Input of `change_scores`: old and new fact, codes of differences, cosine, and thresholds of the embedding model."""


@dataclass(frozen=True, slots=True)
class ChangeModel:
    """Linear projections and boosted trees that score whether a new sentence contradicts an old one.

    `old` and `new` project an embedding, centred by `mean`, to its topic as the old and as the new sentence of a pair.
    `tone` has two columns: how much a sentence sounds like something that ends, and like a change. `apart` projects the
    difference of two embeddings. Scores above 0 open a review.
    """

    names: tuple[str, ...]
    mean: Numbers
    old: Numbers
    new: Numbers
    tone: Numbers
    apart: Numbers
    trees: BoostedTrees

    def project(self, vector: Numbers) -> "EmbeddingProjection":
        """Project one embedding; done once per sentence."""
        centred = vector - self.mean
        tone = centred @ self.tone
        return EmbeddingProjection(
            vector, centred @ self.old, centred @ self.new, float(tone[0]), float(tone[1]), vector @ self.apart
        )

    def pair_features(self, old: "EmbeddingProjection", new: "EmbeddingProjection") -> tuple[float, ...]:
        """Features of an (old, new) pair, in the order of EMBEDDING_FEATURES: topic similarity, ending, change,
        distance, combination."""
        topic, between = float(old.as_old @ new.as_new), old.apart - new.apart
        about = topic + old.ending + new.change + 4 * float(old.vector @ new.vector)
        return topic, old.ending, new.change, -float(between @ between), about


@dataclass(frozen=True, slots=True)
class EmbeddingProjection:
    """Projections of one embedding by a ChangeModel: its topic as the old and as the new sentence of a pair, its tone
    (`ending`, `change`), and the vector for differences."""

    vector: Numbers
    as_old: Numbers
    as_new: Numbers
    ending: float
    change: float
    apart: Numbers


@cache
def change_model() -> ChangeModel:
    """Load the bundled model (cached)."""
    return build_change_model(json.loads(FILE.read_text()))


def build_change_model(stored: Mapping[str, Any]) -> ChangeModel:
    """Build a model from the content of its file: matrices of 8-bit integers, each with its scale."""

    def matrix(name: str) -> Numbers:
        numbers = np.frombuffer(b64decode(stored[name]["bytes"]), np.int8).reshape(stored[name]["shape"])
        return np.asarray(numbers * float(stored[name]["step"]))

    mean, old, new, tone, apart = map(matrix, ("mean", "old", "new", "told", "apart"))
    return ChangeModel(tuple(stored["names"]), mean, old, new, tone, apart, BoostedTrees.of(stored["trees"]))


def change_scores(pairs: Sequence[Pair]) -> list[float]:
    """The score of each pair: log-odds of a change, minus a threshold. Scores from 0 on open a review.

    A pair gets UNKNOWN if nothing shows that both facts have the same subject, or if the new fact states that it is
    true in addition ("also"). The trees score all other pairs; the cross-encoder adds its score for uncertain ones.
    """
    model, scores = change_model(), [UNKNOWN] * len(pairs)
    features = [change_features(*pair) for pair in pairs]
    scored = [place for place, each in enumerate(features) if not each["loose"]]
    if scored:
        rows = np.array([[features[place][name] for name in model.names] for place in scored], float)
        for place, score in zip(scored, model.trees.sums(rows), strict=True):
            scores[place] = float(score)
    doubted = [place for place, pair in enumerate(pairs) if _is_doubted(pair, features[place], scores[place])]
    for place, score in zip(doubted, cross_scores([pairs[place][:2] for place in doubted]), strict=True):
        scores[place] = (1 - CROSS_SHARE) * max(scores[place], MIN_TREE_SCORE) + CROSS_SHARE * score - CROSS_BOUND
    return scores


def _is_doubted(pair: Pair, features: Mapping[str, float], score: float) -> bool:
    """Whether the cross-encoder scores a pair: both embeddings are known, and the new fact does not state that it is
    true in addition. Pairs without a score of the trees must have similar embeddings. New facts with fewer than
    MIN_WORDS words are excluded: the cross-encoder was fitted on sentences."""
    old, new, _, cosine, _ = pair
    near = score >= DOUBT if score != UNKNOWN else cosine >= NEAR
    return near and _is_readable(old, new) and not features["beside"]


def _is_readable(old: FactSnapshot, new: FactSnapshot) -> bool:
    return old.vector is not None and new.vector is not None and len(new.texts) >= MIN_WORDS


def both_true(pairs: Sequence[tuple[FactSnapshot, FactSnapshot]]) -> list[bool]:
    """For each pair: whether the cross-encoder is certain that neither fact contradicts or repeats the other.

    False for pairs that it would not read to their end, or with a word of change or condition, such as "instead" or
    "only when".
    """
    results = [False] * len(pairs)
    readable = [
        place
        for place, (old, new) in enumerate(pairs)
        if _is_readable(old, new)
        and not _sentence(new).change_words["now"]
        and w.CONDITIONS.isdisjoint(old.texts + new.texts)
        and all(len(sentence_of(fact, whole=True)) <= CHARACTERS for fact in (old, new))
    ]
    for place, score in zip(readable, cross_scores([pairs[place] for place in readable]), strict=True):
        results[place] = score < BOTH_TRUE_BELOW
    return results


class _Sentence:
    """Features of one fact, each computed when it is first used."""

    def __init__(self, fact: FactSnapshot) -> None:
        self._fact = fact

    @cached_property
    def change_words(self) -> dict[str, bool]:
        return {name: bool(one.search(self._fact.content)) for name, one in CHANGE_WORDS.items()}

    @cached_property
    def beside(self) -> bool:
        return bool(_BESIDE.search(self._fact.content))

    @cached_property
    def restricted(self) -> bool:
        return not w.RESTRICTIONS.isdisjoint(self._fact.texts)

    @cached_property
    def subject(self) -> tuple[str, ...]:
        return words_before_verb(self._fact.texts)

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
    def projection(self) -> EmbeddingProjection | None:
        return None if self._fact.vector is None else change_model().project(self._fact.vector)


def _sentence(fact: FactSnapshot) -> _Sentence:
    if "sentence" not in fact.memo:
        fact.memo["sentence"] = _Sentence(fact)
    return cast("_Sentence", fact.memo["sentence"])


def change_features(
    old: FactSnapshot, new: FactSnapshot, codes: Set[str], cosine: float, thresholds: Thresholds
) -> dict[str, float]:
    """Features of a fact pair for the change model, by name. Except for counts and embeddings, scaled to about 0–1."""
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
        **{name: said and not one.change_words[name] for name, said in other.change_words.items()},
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
    if one.projection is None or other.projection is None:
        return signs | dict.fromkeys(EMBEDDING_FEATURES, UNKNOWN)
    return signs | dict(
        zip(EMBEDDING_FEATURES, change_model().pair_features(one.projection, other.projection), strict=True)
    )
