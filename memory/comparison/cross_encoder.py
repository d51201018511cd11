"""Cross-encoder: score how likely a new fact contradicts or repeats an old one, with the layers of the local embedder.

The words of each sentence attend to those of the other, so that "I rent a studio" and "I bought a flat" are recognised
as related although they share no words. Its weights are those of the installed embedding model with a low-rank change
of each matrix (LoRA, Hu et al., ICLR 2022), which benchmarks/fact_pairs/fit_cross_encoder.py fits and
cross_encoder.npz contains. numpy computes it in single precision: a second session of onnxruntime would use twice as
much memory in each process that learns facts. A pair takes about 15 ms of a core.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.comparison.fact_snapshot import FactSnapshot
from memory.embedding.local import MODEL_FILE, MODEL_SHA256, tokenizer, verified_file
from memory.embedding.model_weights import model_weights

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]
FILE = Path(__file__).with_name("cross_encoder.npz")
LAYERS, HEADS, HEAD_SIZE, SIZE = 6, 12, 32, 384
CHARACTERS = 240
"""Maximum number of characters that are read of each sentence: the time grows with the length."""
EMBEDDINGS, LAYER = "inner.embeddings.", "inner.encoder.layer.{}."
_FIRST, _STEP = 122, 71
MATRICES = {
    "q": ("attention.self.query", 49, 0), "k": ("attention.self.key", 57, 8), "v": ("attention.self.value", 65, 16),
    "o": ("attention.output.dense", 105, 54), "i": ("intermediate.dense", 109, 58), "f": ("output.dense", 118, 67),
}  # fmt: skip
"""Each matrix of a layer: the name of its bias, the number of the matrix in the exported model in the first layer, and
the offset of its number in later layers."""
_LOADING = threading.Lock()


@dataclass(frozen=True, slots=True)
class CrossEncoder:
    """`matrices` and `weights`: by name. `segments`: embeddings of the tokens of the old and the new sentence.
    `head`: three columns, for changed, the same, and both true."""

    matrices: Mapping[str, Floats]
    weights: Mapping[str, NDArray[Any]]
    segments: Floats
    head: Floats
    head_bias: Floats

    def score(self, tokens: Whole, segment: Whole) -> float:
        """Log-odds that the second sentence contradicts or repeats the first, so that only one should be kept.

        `segment` is 0 for tokens of the first sentence and 1 for tokens of the second.
        """
        last = self._layers(tokens, segment)
        old, new = last[segment == 0].mean(0), last[segment == 1].mean(0)
        changed, same, true = np.concatenate([old, new, old * new, np.abs(old - new), last[0]]) @ self.head
        changed, same, true = (float(each) for each in np.array([changed, same, true]) + self.head_bias)
        return float(np.logaddexp(changed, same)) - true

    def _layers(self, tokens: Whole, segment: Whole) -> Floats:
        """The last hidden state of each token, of shape (tokens, SIZE)."""
        count = len(tokens)
        x = self._embedding("word", tokens) + self._embedding("position", np.arange(count)) + self.segments[segment]
        x = self._normalised(x, EMBEDDINGS)
        for layer in range(LAYERS):
            name = LAYER.format(layer)

            def dense(values: Floats, part: str, layer: int = layer, name: str = name) -> Floats:
                return values @ self.matrices[f"{layer}{part}"] + self.weights[f"{name}{MATRICES[part][0]}.bias"]

            query, key, value = (dense(x, part).reshape(count, HEADS, HEAD_SIZE).transpose(1, 0, 2) for part in "qkv")
            attention = _softmax(query @ key.transpose(0, 2, 1) / np.float32(HEAD_SIZE**0.5))
            heads = (attention @ value).transpose(1, 0, 2).reshape(count, SIZE)
            x = self._normalised(x + dense(heads, "o"), f"{name}attention.output.")
            x = self._normalised(x + dense(_gelu(dense(x, "i")), "f"), f"{name}output.")
        return x

    def _embedding(self, kind: str, rows: Whole) -> Floats:
        name = f"{EMBEDDINGS}{kind}_embeddings.weight"
        return np.asarray(self.weights[f"{name}_q"][rows] * self.weights[f"{name}_scale"][rows], np.float32)

    def _normalised(self, x: Floats, name: str) -> Floats:
        x = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-12))
        return np.asarray(x / spread * self.weights[f"{name}LayerNorm.weight"] + self.weights[f"{name}LayerNorm.bias"])


def cross_scores(pairs: Sequence[tuple[FactSnapshot, FactSnapshot]]) -> list[float]:
    """For each pair, the log-odds that the second fact contradicts or repeats the first."""
    with _LOADING:
        encoder = cross_encoder()
    scores = []
    for pair in pairs:
        encoding = tokenizer().encode(*map(sentence_of, pair))
        scores.append(encoder.score(np.array(encoding.ids), np.array(encoding.type_ids)))
    return scores


def sentence_of(fact: FactSnapshot, *, whole: bool = False) -> str:
    """The input of the cross-encoder for a fact: the content after its subject, if that is a name; truncated unless
    `whole`."""
    subject = "" if fact.subject in ("", "user") else f"{fact.subject}: "
    sentence = subject + fact.content
    return sentence if whole else sentence[:CHARACTERS]


@lru_cache(maxsize=1)
def cross_encoder() -> CrossEncoder:
    """Load the bundled cross-encoder (cached)."""
    return build_encoder(np.load(FILE))


def build_encoder(change: Mapping[str, NDArray[Any]]) -> CrossEncoder:
    """Build the cross-encoder: the local embedding model plus int8 low-rank (LoRA) weights `down` and `up`."""
    weights = model_weights(memoryview(verified_file(*MODEL_FILE, MODEL_SHA256)))
    matrices = {}
    for layer in range(LAYERS):
        for part, (_, first, beyond) in MATRICES.items():
            name = f"val_{_FIRST + beyond + _STEP * (layer - 1) if layer else first}"
            thin = [f"{layer}{part}.{side}" for side in ("down", "up")]
            down, up = (change[each] * change[f"{each}_scale"] for each in thin)
            whole = weights[f"{name}_q"] * weights[f"{name}_scale"] + down @ up
            matrices[f"{layer}{part}"] = np.asarray(whole, np.float32)
    # Copies, so that the file is not kept in memory.
    others = {name: array.copy() for name, array in weights.items() if not name.startswith("val_")}
    segments = weights[f"{EMBEDDINGS}token_type_embeddings.weight"] + change["segments"]
    return CrossEncoder(matrices, others, np.asarray(segments, np.float32), change["head"], change["head_bias"])


def _softmax(x: Floats) -> Floats:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(raised / raised.sum(-1, keepdims=True))


def _gelu(x: Floats) -> Floats:
    """x times the normal distribution's share below x, its error function by Abramowitz and Stegun, 7.1.26."""
    size = np.abs(x) * np.float32(0.5**0.5)
    t, powers = 1 / (1 + np.float32(0.3275911) * size), np.zeros_like(x)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        powers = t * (powers + np.float32(factor))
    return np.asarray(x * np.float32(0.5) * (1 + np.sign(x) * (1 - powers * np.exp(-size * size))))
