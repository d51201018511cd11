"""Fit memory/comparison/cross_encoder.npz: python -m benchmarks.fact_pairs.fit_cross_encoder [LOCOMO]

Learned from are the labelled pairs of pairs.jsonl but those of HELD, and a few of the pairs that are made of slots.txt
and stories.txt and of LoCoMo's observations (benchmarks.fact_pairs.fit). The weights of the local embedder stay, a
low-rank change of each of its matrices is learned (LoRA, Hu et al., ICLR 2022), by Adam, for three classes: changed,
the same, both true. Needs jax (benchmarks/requirements.txt), which the product does not, and about 40 minutes of a
core. After each pass it prints how well HELD is told apart.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fact_pairs import fit
from benchmarks.fact_pairs.slots import Maker
from benchmarks.fact_pairs.stories import other_stories, story_pairs
from benchmarks.locomo import DEFAULT_FILE
from benchmarks.vector_cache import CachedEmbedder

HELD = ("sealed", "sealed2", "sealed3")
SHARES = {"made": 0.08, "story": 0.04, "observed": 0.06}
WEIGHTS = {"made": 0.4, "story": 0.3, "observed": 0.3}
"""Which share of what was not written pair by pair is learned from, and what one of these weighs."""
RANK, SEED, BATCH, RATE, WARM, DECAY, HEAD_DECAY = 8, 1, 32, 2e-3, 100, 0.01, 1e-4
PASSES, KEPT_PASS = 4, 3
"""The rate falls to nothing over the passes; kept is what the third leaves: the fourth learns the pairs by heart."""
WIDTHS = (16, 24, 32, 40, 48, 64, 96)
"""Tokens of a batch, to one of which its pairs are padded."""
CHANGED, SAME, TRUE = 0, 1, 2
Batch = tuple[Sequence[int], Any, Any, Any, Any, Any]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("locomo", nargs="?", type=Path, default=DEFAULT_FILE)
    arguments.add_argument("--vectors", type=Path, help="a file that keeps embeddings for the next run")
    given = arguments.parse_args()
    os.environ.setdefault("DATABASE_URL", "postgresql:///unused?host=/nonexistent")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    import django

    django.setup()
    from memory.comparison.cross_encoder import FILE

    random = np.random.default_rng(SEED)
    learned, held = _pairs(given.locomo, given.vectors, random)
    print(f"{len(learned)} pairs, {len(held)} held out", flush=True)
    import jax
    import jax.numpy as jnp

    weights, start = _start(jax, jnp)
    forward = _forward(jax, jnp, weights)

    def loss(change: Any, tokens: Any, segment: Any, mask: Any, labels: Any, weight: Any) -> Any:
        logs = jax.nn.log_softmax(forward(change, tokens, segment, mask))
        return -(logs[jnp.arange(len(labels)), labels] * weight).mean() + HEAD_DECAY * (change["head"] ** 2).sum()

    @jax.jit
    def step(change: Any, first: Any, second: Any, turn: Any, rate: Any, *batch: Any) -> Any:
        slopes = jax.grad(loss)(change, *batch)
        first = jax.tree.map(lambda mean, slope: 0.9 * mean + 0.1 * slope, first, slopes)
        second = jax.tree.map(lambda mean, slope: 0.999 * mean + 0.001 * slope * slope, second, slopes)

        def moved(each: Any, mean: Any, square: Any) -> Any:
            towards = mean / (1 - 0.9**turn) / (jnp.sqrt(square / (1 - 0.999**turn)) + 1e-8)
            return each - rate * (towards + DECAY * each)

        return jax.tree.map(moved, change, first, second), first, second

    change, first, second = start, jax.tree.map(jnp.zeros_like, start), jax.tree.map(jnp.zeros_like, start)
    read, turn, turns = jax.jit(forward), 0, PASSES * (len(learned) // BATCH)
    for number in range(1, KEPT_PASS + 1):
        for _, *batch in _batches(learned, random):
            turn += 1
            rate = RATE * min(1.0, turn / WARM) * max(0.02, 1 - turn / (turns * 1.05))
            change, first, second = step(change, first, second, float(turn), rate, *batch)
        print(f"pass {number}: {_told_apart(held, read, change)}", flush=True)
    np.savez_compressed(FILE, **_packed({name: np.asarray(each) for name, each in change.items()}))
    print(f"{FILE.name}: {FILE.stat().st_size} bytes", flush=True)
    return 0


def _pairs(locomo: Path, vectors: Path | None, random: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """What is learned from and what is held out: tokens, segments, label and weight of each pair, and its split."""
    from memory.comparison.cross_encoder import sentence_of
    from memory.comparison.fact_snapshot import FactSnapshot
    from memory.embedding.local import tokenizer
    from memory.embedding.registry import embedder_named
    from memory.embedding.thresholds import DEFAULT_MODEL

    embedder: Any = embedder_named(DEFAULT_MODEL)
    embedder = CachedEmbedder(embedder, vectors) if vectors else embedder
    written = [json.loads(line) for line in Path(__file__).with_name("pairs.jsonl").read_text().splitlines()]
    others = {
        "story": story_pairs(fit.SEED) + other_stories(embedder),
        "made": Maker(fit.SEED).pairs(fit.EACH),
        "observed": list(fit._observations(json.loads(locomo.read_text()), embedder)),
    }
    chosen = [(pair, 1.0) for pair in written]
    for source, pairs in others.items():
        chosen += [(pair, WEIGHTS[source]) for pair in pairs if random.random() < SHARES[source]]
    learned, held = [], []
    for pair, weight in chosen:
        facts = [FactSnapshot(pair[side], pair.get("subject", "")) for side in ("old", "new")]
        encoding = tokenizer().encode(*map(sentence_of, facts))
        label = CHANGED if pair["label"] in fit.CHANGED else SAME if pair["label"] == "paraphrase" else TRUE
        row = (encoding.ids[: WIDTHS[-1]], encoding.type_ids[: WIDTHS[-1]], label, weight, pair["split"])
        (held if pair["split"] in HELD else learned).append(row)
    return learned, held


def _start(jax: Any, jnp: Any) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The embedder's weights by name, its matrices among them, and the change that is nothing yet."""
    from memory.comparison import cross_encoder as c

    nothing = {f"{layer}{part}.{side}": np.zeros((1, 1), np.int8) for layer in range(c.LAYERS) for part in c.MATRICES
               for side in ("down", "up")}  # fmt: skip
    nothing |= {f"{name}_scale": np.zeros((1, 1), np.float32) for name in nothing}
    plain = c.build_encoder(nothing | {"segments": 0, "head": 0, "head_bias": 0})
    table = f"{c.EMBEDDINGS}{{}}_embeddings.weight"
    whole = {kind: plain.weights[f"{table.format(kind)}_q"] * plain.weights[f"{table.format(kind)}_scale"]
             for kind in ("word", "position")}  # fmt: skip
    weights = {name: jnp.asarray(each) for name, each in (plain.weights | plain.matrices | whole).items()}
    weights["segments"] = jnp.asarray(plain.segments)
    key, change = jax.random.PRNGKey(SEED), {}
    for name, matrix in plain.matrices.items():
        key, drawn = jax.random.split(key)
        change[f"{name}.down"] = jax.random.normal(drawn, (matrix.shape[0], RANK)) / np.sqrt(matrix.shape[0])
        change[f"{name}.up"] = jnp.zeros((RANK, matrix.shape[1]))
    change |= {"segments": jnp.zeros((2, c.SIZE)), "head": jnp.zeros((5 * c.SIZE, 3)), "head_bias": jnp.zeros(3)}
    return weights, change


def _forward(jax: Any, jnp: Any, weights: Mapping[str, Any]) -> Any:
    """memory.comparison.cross_encoder.CrossEncoder, of many pairs at once and in a form that jax can differentiate."""
    from memory.comparison import cross_encoder as c

    def normalised(x: Any, name: str) -> Any:
        x = x - x.mean(-1, keepdims=True)
        x = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * weights[f"{name}LayerNorm.weight"] + weights[f"{name}LayerNorm.bias"]

    def forward(change: Any, tokens: Any, segment: Any, mask: Any) -> Any:
        count, width = tokens.shape
        x = weights["word"][tokens] + weights["position"][:width] + (weights["segments"] + change["segments"])[segment]
        x, hidden = normalised(x, c.EMBEDDINGS), (1 - mask)[:, None, None, :] * -1e9
        for layer in range(c.LAYERS):
            name = c.LAYER.format(layer)

            def dense(values: Any, part: str, layer: int = layer, name: str = name) -> Any:
                thin = values @ change[f"{layer}{part}.down"] @ change[f"{layer}{part}.up"]
                return values @ weights[f"{layer}{part}"] + thin + weights[f"{name}{c.MATRICES[part][0]}.bias"]

            query, key, value = (
                dense(x, part).reshape(count, width, c.HEADS, c.HEAD_SIZE).transpose(0, 2, 1, 3) for part in "qkv"
            )
            attention = jax.nn.softmax(query @ key.transpose(0, 1, 3, 2) / np.sqrt(c.HEAD_SIZE) + hidden, -1)
            heads = (attention @ value).transpose(0, 2, 1, 3).reshape(count, width, c.SIZE)
            x = normalised(x + dense(heads, "o"), f"{name}attention.output.")
            x = normalised(x + dense(jax.nn.gelu(dense(x, "i"), approximate=False), "f"), f"{name}output.")
        sides = [mask * (segment == side) for side in (0, 1)]
        old, new = ((x * side[:, :, None]).sum(1) / side.sum(1, keepdims=True) for side in sides)
        return (
            jnp.concatenate([old, new, old * new, jnp.abs(old - new), x[:, 0]], 1) @ change["head"]
            + change["head_bias"]
        )

    return forward


def _batches(rows: Sequence[Any], random: np.random.Generator | None) -> Iterator[Batch]:
    """Pairs of like length: which these are, tokens, segments, mask, labels, weights. Without `random`, in order."""
    by_width: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        by_width.setdefault(next(width for width in WIDTHS if len(row[0]) <= width), []).append(place)
    batches = []
    for width, places in by_width.items():
        order = random.permutation(places).tolist() if random else places
        batches += [(width, order[begin : begin + BATCH]) for begin in range(0, len(order), BATCH)]
    for number in random.permutation(len(batches)) if random else range(len(batches)):
        width, places = batches[number]
        # A batch that is short repeats its first pair, so that each width is compiled once; repeats weigh nothing.
        chosen = places + [places[0]] * (BATCH - len(places))
        tokens, segment = np.zeros((BATCH, width), np.int32), np.zeros((BATCH, width), np.int32)
        mask = np.zeros((BATCH, width), np.float32)
        for line, place in enumerate(chosen):
            ids, types, *_ = rows[place]
            tokens[line, : len(ids)], segment[line, : len(ids)], mask[line, : len(ids)] = ids, types, 1
        weight = np.array([rows[place][3] for place in places] + [0.0] * (BATCH - len(places)), np.float32)
        yield places, tokens, segment, mask, np.array([rows[place][2] for place in chosen]), weight


def _told_apart(held: Sequence[Any], read: Any, change: Any) -> str:
    """For each split of HELD, the share of changed pairs that score below the best fifth of the true ones."""
    scores = np.zeros(len(held))
    for places, tokens, segment, mask, *_ in _batches(held, None):
        found = np.asarray(read(change, tokens, segment, mask), float)[: len(places)]
        scores[list(places)] = found[:, CHANGED] - np.logaddexp(found[:, SAME], found[:, TRUE])
    labels, splits = np.array([row[2] for row in held]), np.array([row[4] for row in held])
    line = []
    for name in HELD:
        bound = np.quantile(scores[(splits == name) & (labels == TRUE)], 0.8)
        missed = (scores[(splits == name) & (labels == CHANGED)] < bound).mean()
        line.append(f"{name} {missed:.1%} missed at 20 % asked about")
    return ", ".join(line)


def _packed(change: Mapping[str, Any]) -> dict[str, Any]:
    """The thin matrices in 8 bits with a scale for each column, the rest as it is."""
    packed: dict[str, Any] = {}
    for name, each in change.items():
        if not name.endswith((".down", ".up")):
            packed[name] = each.astype(np.float32)
            continue
        scale = np.maximum(np.abs(each).max(0), 1e-12) / 127
        packed[name], packed[f"{name}_scale"] = np.round(each / scale).astype(np.int8), scale.astype(np.float32)
    return packed


if __name__ == "__main__":
    sys.exit(main())
