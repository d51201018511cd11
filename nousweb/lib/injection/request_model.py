"""Whether a sentence asks its reader to act: two linear models, fitted by `benchmarks.requests_model`.

The first one knows the words, their parts, and the features of `scan`. What it finds possible is judged by the second
one, which also has vectors of the local embedding model: the sentence's, and those of the text around it, by which a
letter from one person to another is told from a request to whoever reads. Scores are log-odds.
"""

import itertools
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WEIGHTS_FILE = Path(__file__).with_name("request_weights.npz")
WORDS, CHARACTERS = 4_096, 8_192
"""Numbers of places onto which words, and parts of words, are hashed."""
SCALE = 3.0
SHORTEST = 3
"""A sentence of fewer words of ASCII letters alone is not judged: names, labels and keys are none."""
LONGEST = 300
"""A sentence of more characters is judged in parts."""
MOST_SENTENCES = 24
"""Of a text, so many sentences at most are judged with their vectors: those of the highest scores without."""

_WORD = re.compile(r"[^\W_]+(?:'\w+)?|[^\w\s]")
_MAIL = re.compile(r"\S+@\S+")
_ADDRESS = re.compile(
    r"https?:\S+|www\.\S+|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|org|net|io|example|test|dev|xyz)\b\S*"
)
_NUMBER = re.compile(r"\d[\d.,:]*")
_PARTS = (2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class RequestWeights:
    """`lexical` and `full` have the weights of words, parts of words, features by `features`, and, of the full one, of
    the vectors of the sentence and of its window; then their constant. By its words alone, a sentence is judged further
    from `possible` on, and is no request below `harmless`. It is one from `asks` on."""

    lexical: NDArray[np.float32]
    full: NDArray[np.float32]
    features: tuple[str, ...]
    possible: float
    harmless: float
    asks: float


@lru_cache(maxsize=1)
def request_weights() -> RequestWeights:
    """The fitted weights."""
    with np.load(WEIGHTS_FILE) as held:
        lexical, full = held["lexical"].astype(np.float32), held["full"].astype(np.float32)
        return RequestWeights(lexical, full, tuple(map(str, held["features"])), *map(float, held["thresholds"]))


def places_of(sentence: str) -> tuple[list[int], list[int]]:
    """The places of the words of a folded sentence, and of their parts."""
    said = _NUMBER.sub(" 0 ", _ADDRESS.sub(" webaddr ", _MAIL.sub(" mailaddr ", sentence)))
    words = _WORD.findall(said)
    told = {f"w {word}" for word in words}
    told.update(f"b {one} {other}" for one, other in itertools.pairwise(words))
    told.update(f"s {one} {other}" for one, other in zip(words, words[2:], strict=False))
    told.update(f"c {other}" for one, other in itertools.pairwise(words) if not one[0].isalnum())
    spelled = [word for word in words if word[0].isalpha()]
    told.update(f"p{place} {word}" for place, word in enumerate(spelled[:3]))
    if len(spelled) > 1:
        told.add(f"q {spelled[0]} {spelled[1]}")
    parts = set[int]().union(*map(_parts_of, set(words)))
    return sorted({_hashed(one, WORDS) for one in told}), sorted(parts)


@lru_cache(maxsize=20_000)
def _parts_of(word: str) -> frozenset[int]:
    """The places of the beginnings, ends and other parts of a word."""
    edged = f"<{word[:40]}>"
    parts = {edged[start : start + size] for size in _PARTS for start in range(len(edged) - size + 1)}
    return frozenset(_hashed(f"#{part}", CHARACTERS) for part in parts)


def _hashed(text: str, places: int) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) % places


def lexical_scores(sentence: str, features: Collection[str]) -> tuple[float, float]:
    """The score of a folded sentence by its words and features, and what these add to the full score."""
    weights = request_weights()
    words, parts = places_of(sentence)
    places = [WORDS + CHARACTERS + place for place, name in enumerate(weights.features) if name in features]
    scores = []
    for of in (weights.lexical, weights.full):
        score = SCALE * float(of[words].sum()) / (len(words) + 1) ** 0.5
        score += SCALE * float(of[[WORDS + part for part in parts]].sum()) / (len(parts) + 1) ** 0.5
        scores.append(score + float(of[places].sum()) + float(of[-1]))
    return scores[0], scores[1]


def full_scores(lexical: Sequence[float], vectors: NDArray[Any], windows: NDArray[Any]) -> NDArray[Any]:
    """The full scores of sentences: what `lexical_scores` says of them, and a row of `vectors` and of `windows`, the
    vectors of the texts around them, for each."""
    weights = request_weights()
    of_vectors = weights.full[WORDS + CHARACTERS + len(weights.features) : -1]
    return np.asarray(lexical, np.float32) + np.hstack([vectors, windows]).astype(np.float32) @ of_vectors


def judged_parts(sentence: str) -> Iterator[str]:
    """The parts of a sentence that are judged: of one that is not too long, itself; of one or two words, none."""
    if sentence.isascii() and len(re.findall(r"[a-z]+", sentence)) < SHORTEST:
        return
    while len(sentence) > LONGEST:
        end = sentence.rfind(" ", LONGEST // 2, LONGEST)
        end = end if end > 0 else LONGEST
        yield sentence[:end]
        sentence = sentence[end:].strip()
    if sentence:
        yield sentence
