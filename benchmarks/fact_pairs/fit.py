"""Fit the score of a change and write memory/comparison/change_model.json: python -m benchmarks.fact_pairs.fit [LOCOMO]

Learned from are the labelled pairs of SPLITS, those of stories.txt and slots.txt, and the observations of LoCoMo's
conversations with the older ones nearest to them, which are as good as all true. First how embeddings are read, then
trees that see what embeddings say out of their fold, as of pairs nobody has seen. Needs lightgbm
(benchmarks/requirements.txt), which the product does not. `--check` writes nothing: it prints what is decided of each
split by what was fitted without it.
"""

import argparse
import json
import os
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.fact_pairs.prompts import SUBJECT
from benchmarks.fact_pairs.slots import Maker
from benchmarks.fact_pairs.stories import other_stories, story_pairs
from benchmarks.fit_ranker import trees_as_read
from benchmarks.locomo import DEFAULT_FILE
from benchmarks.vector_cache import CachedEmbedder

SPLITS = ("dev", "fresh", "test", "wide", "held", "third", "told", "fourth", "last", "more", "beside")
"""Whatever other splits there are the trees never learn from."""
SEED, EACH, OLDER, UNSEEN_CONVERSATIONS = 1, 9, 12, 2
READ_WEIGHTS = {"made": 1.0, "observed": 0.3, "story": 0.2}
TREE_WEIGHTS = {"made": 0.05, "observed": 0.1, "story": 0.0}
"""What is made teaches how embeddings are read. The trees learn nearly only from what was written pair by pair and from
what people said: with stories in them, more of the changed of a split that is left out are missed."""
OTHER_WEIGHT, COPY_WEIGHT = 2.0, 0.5
"""Of a labelled pair in either fit; of its copy, with a subject where it has none or without, as a share of that."""
UNNAMED = 4
"""Of so many observations one is without a subject."""
PARTS, LATER = 5, 92
"""`more` is left out in so many parts. The stories from this number on were written with what had been missed in view,
so nothing that is left out is measured with them."""
FOLDS, TOPICS, APART = 6, 24, 32
STEP, DECAY, EPOCHS, BATCH, SHRINK = 3e-3, 3e-4, 8, 256, 0.1
UNREAD, UNREAD_WEIGHT = 0.35, 0.4
"""Of so many pairs the trees also see a copy without embeddings, since a model of another kind has none of these."""
BOUND, BLIND_BOUND = -0.6, -0.6
"""Log-odds from which people are asked, chosen with each split left out: 17 % of the true are asked about, nearly as
before; and the bound where no embedding is known."""
BOUNDS = (-2.0, -1.5, -1.3, -1.1, -0.9, -0.75, -0.6, -0.5, -0.4, -0.3, 0.0)
ROUNDS = 500
PARAMETERS = {
    "objective": "binary",
    "num_leaves": 8,
    "max_depth": 3,
    "learning_rate": 0.05,
    "min_data_in_leaf": 40,
    "lambda_l2": 5,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "max_bin": 63,
    "seed": 1,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
TRUE = ("refinement", "compatible", "unrelated")
CHANGED = ("update", "contradiction")


@dataclass(slots=True)
class Table:
    """One row for each pair: `signs` by `names`, both embeddings, whether people are to be asked, of what group it is
    (a split, a story, a kind of thing, a speaker), whether it is made, observed or written, whether the score decides,
    and whether it is the copy of another one."""

    names: list[str]
    signs: Any
    old: Any
    new: Any
    asked: Any
    group: Any
    source: Any
    free: Any
    outcome: Any
    label: Any
    copy: Any


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("locomo", nargs="?", type=Path, default=DEFAULT_FILE)
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--vectors", type=Path, help="a file that keeps embeddings for the next run")
    given = arguments.parse_args()
    os.environ.setdefault("DATABASE_URL", "postgresql:///unused?host=/nonexistent")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    import django

    django.setup()
    from memory.comparison.change_score import EMBEDDING_FEATURES, FILE, UNKNOWN
    from memory.embedding.registry import embedder_named
    from memory.embedding.thresholds import DEFAULT_MODEL

    embedder: Any = embedder_named(DEFAULT_MODEL)
    embedder = CachedEmbedder(embedder, given.vectors) if given.vectors else embedder
    lines = Path(__file__).with_name("pairs.jsonl").read_text().splitlines()
    pairs = [pair for pair in map(json.loads, lines) if pair["split"] in SPLITS]
    told = story_pairs(SEED) + other_stories(embedder)
    told = [pair for pair in told if not given.check or int(pair["split"].split()[1]) < LATER]
    pairs += list(_copies(pairs)) + told + Maker(SEED).pairs(EACH)
    pairs += _observations(json.loads(given.locomo.read_text()), embedder)
    table = _table(pairs, embedder)
    read = np.zeros((len(pairs), len(EMBEDDING_FEATURES)))
    groups = sorted(set(table.group))
    fold = np.array([groups.index(group) % FOLDS for group in table.group])
    for one in range(FOLDS):
        reader, held = _reader(table, fold != one), fold == one
        read[held] = _read(reader, table.old[held], table.new[held])
    signs = np.c_[table.signs, read]
    print("fold by fold", flush=True)
    if given.check:
        return _check(table, signs)
    held = _encoded(_reader(table, np.full(len(pairs), True)))
    trees = trees_as_read(_trees(table, signs, np.full(len(pairs), True)))
    known = len(table.names) + EMBEDDING_FEATURES.index("topic")
    bounds = [-BLIND_BOUND] * 4 + [-BOUND] * 4
    trees.append({"features": [known] * 7, "thresholds": [UNKNOWN / 2] * 7, "leaves": bounds})
    FILE.write_text(
        json.dumps({"names": [*table.names, *EMBEDDING_FEATURES], **held, "trees": trees}, separators=(",", ":")) + "\n"
    )
    print(f"{FILE.name}: {FILE.stat().st_size} bytes from {len(pairs)} pairs", flush=True)
    return 0


def _copies(pairs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each pair as it is learned without its subject, or with one if both speak of one thing."""
    for pair in pairs:
        if pair.get("subject") or pair["label"] != "unrelated":
            yield pair | {"subject": "" if pair.get("subject") else SUBJECT, "copy": True}


def _observations(conversations: list[Any], embedder: Any) -> Iterator[dict[str, Any]]:
    """Each observation with the OLDER ones of its speaker before it that are nearest."""
    for conversation in conversations[UNSEEN_CONVERSATIONS:]:
        sessions = conversation["observation"]
        said = [
            (who, line[0])
            for name in sorted(sessions, key=lambda name: int(name.split("_")[1]))
            for who, lines in sessions[name].items()
            for line in lines
        ]
        texts = list(dict.fromkeys(text for _, text in said))
        vectors = dict(zip(texts, embedder.embed_documents(texts), strict=True))
        for place, (who, text) in enumerate(said):
            older = {other for speaker, other in said[:place] if speaker == who and other != text}
            nearest = sorted(older, key=lambda other: (-float(vectors[other] @ vectors[text]), other))[:OLDER]
            about = {"split": f"observed {who}", "label": "compatible", "new": text}
            for number, other in enumerate(nearest, place):
                yield about | {"old": other, "subject": who if number % UNNAMED else ""}


def _table(pairs: list[dict[str, Any]], embedder: Any) -> Table:
    from memory.comparison import change_score
    from memory.comparison import compare_facts as compare
    from memory.comparison.fact_snapshot import FactSnapshot
    from memory.embedding.thresholds import DEFAULT_MODEL, thresholds_of

    thresholds, learned = thresholds_of(DEFAULT_MODEL), datetime(2026, 1, 1, tzinfo=UTC)
    texts = list(dict.fromkeys(pair[side] for pair in pairs for side in ("old", "new")))
    vectors = dict(zip(texts, embedder.embed_documents(texts), strict=True))
    rows, free, outcomes = [], [], []
    for pair in pairs:
        cosine, subject = float(vectors[pair["old"]] @ vectors[pair["new"]]), pair.get("subject", "")
        old = FactSnapshot(pair["old"], subject, moment=learned)
        new = FactSnapshot(pair["new"], subject, moment=learned + timedelta(days=1))
        codes = {reason.code for reason in compare._differences(old, new, same=False)}
        signs = change_score.change_features(old, new, codes, cosine, thresholds)
        rows.append(
            {
                name: value
                for name, value in signs.items()
                if name not in (*change_score.EMBEDDING_FEATURES, "loose", "beside")
            }
        )
        compare.change_scores = lambda pairs, loose=signs["loose"]: [-1.0 if loose else 1.0 for _ in pairs]
        found = compare.compare_facts(old, new, cosine, thresholds)
        free.append(found.faint)
        outcomes.append(str(found.outcome))
    names, group = list(rows[0]), np.array([_group_of(pair) for pair in pairs])
    return Table(
        names,
        np.array([[float(row[name]) for name in names] for row in rows]),
        np.array([vectors[pair["old"]] for pair in pairs], float),
        np.array([vectors[pair["new"]] for pair in pairs], float),
        np.array([pair["label"] not in TRUE for pair in pairs], float),
        group,
        np.array([each.split()[0] for each in group]),
        np.array(free),
        np.array(outcomes),
        np.array([pair["label"] for pair in pairs]),
        np.array([pair.get("copy", False) for pair in pairs]),
    )


def _group_of(pair: dict[str, Any]) -> str:
    return f"more {crc32(pair['old'].encode()) % PARTS}" if pair["split"] == "more" else str(pair["split"])


def _weights(table: Table, weights: dict[str, float]) -> Any:
    each = np.array([weights.get(source, OTHER_WEIGHT) for source in table.source])
    return np.where(table.copy, COPY_WEIGHT, 1.0) * each


def _reader(table: Table, rows: Any) -> dict[str, Any]:
    """How embeddings are read, learned from `rows`: what memory.comparison.change_score.ChangeModel holds.

    Two sentences of one slot are near as a bilinear form of both sees them, with a linear part for each: fitted by
    Adam as a logistic regression that has the cosine too. Beside it the difference of two embeddings, by how much
    likelier it is of one slot than of two (KISSME, Koestinger et al., CVPR 2012).
    """
    old, new, asked = table.old[rows], table.new[rows], table.asked[rows]
    weights, choose = _weights(table, READ_WEIGHTS)[rows], np.random.default_rng(0)
    both = np.r_[old, new]
    mean, cosines = both.mean(0), (old * new).sum(1) - 0.5
    sample = both[choose.choice(len(both), min(6_000, len(both)), replace=False)] - mean
    start = np.linalg.eigh(sample.T @ sample)[1][:, ::-1][:, :TOPICS] * 1.5
    found = [start.copy(), start.copy(), np.zeros(old.shape[1]), np.zeros(old.shape[1]), np.array([-1.0, 4.0])]
    first, second = [np.zeros_like(each) for each in found], [np.zeros_like(each) for each in found]
    turn = 0
    for epoch in range(EPOCHS):
        order = choose.permutation(len(old))
        for begin in range(0, len(order), BATCH):
            batch = order[begin : begin + BATCH]
            one, other, cosine = old[batch] - mean, new[batch] - mean, cosines[batch]
            topic, other_topic = one @ found[0], other @ found[1]
            score = (
                (topic * other_topic).sum(1) + one @ found[2] + other @ found[3] + found[4][0] + found[4][1] * cosine
            )
            error = weights[batch] * (1 / (1 + np.exp(-score)) - asked[batch]) / len(batch)
            slopes = [
                one.T @ (error[:, None] * other_topic) + DECAY * found[0],
                other.T @ (error[:, None] * topic) + DECAY * found[1],
                one.T @ error + DECAY * found[2],
                other.T @ error + DECAY * found[3],
                np.array([error.sum(), (error * cosine).sum()]),
            ]
            turn += 1
            for place, slope in enumerate(slopes):
                first[place] = 0.9 * first[place] + 0.1 * slope
                second[place] = 0.999 * second[place] + 0.001 * slope**2
                size = np.sqrt(second[place] / (1 - 0.999**turn)) + 1e-8
                found[place] -= STEP * (1 - epoch / EPOCHS) * first[place] / (1 - 0.9**turn) / size
    same, other = (_spread((old - new)[asked == kind], weights[asked == kind]) for kind in (1, 0))
    sizes, ways = np.linalg.eigh(np.linalg.inv(same) - np.linalg.inv(other))
    apart = ways[:, -APART:] * np.sqrt(np.maximum(sizes[-APART:], 0))
    return {"mean": mean, "old": found[0], "new": found[1], "told": np.c_[found[2], found[3]], "apart": apart}


def _spread(differences: Any, weights: Any) -> Any:
    """Their covariance about 0, shrunk, so that it can be inverted."""
    spread = differences.T @ (differences * weights[:, None]) / weights.sum()
    return (1 - SHRINK) * spread + SHRINK * np.trace(spread) / len(spread) * np.eye(len(spread))


def _encoded(reader: dict[str, Any]) -> dict[str, Any]:
    steps = {name: float(np.abs(each).max()) / 127 for name, each in reader.items()}
    whole = {name: np.round(each / steps[name]).astype(np.int8) for name, each in reader.items()}
    return {
        name: {"step": steps[name], "shape": list(each.shape), "bytes": b64encode(each.tobytes()).decode()}
        for name, each in whole.items()
    }


def _read(reader: dict[str, Any], old: Any, new: Any) -> Any:
    from memory.comparison.change_score import build_change_model

    model = build_change_model(
        {
            "names": [],
            "trees": [{"features": [0] * 7, "thresholds": [0.0] * 7, "leaves": [0.0] * 8}],
            **_encoded(reader),
        }
    )
    return np.array(
        [model.pair_features(model.project(one), model.project(other)) for one, other in zip(old, new, strict=True)]
    )


def _trees(table: Table, signs: Any, rows: Any) -> Any:
    import lightgbm

    from memory.comparison.change_score import EMBEDDING_FEATURES, UNKNOWN

    weights = _weights(table, TREE_WEIGHTS)
    chosen = np.flatnonzero(rows & table.free & (weights > 0))
    unread = np.random.default_rng(1).choice(chosen, int(UNREAD * len(chosen)), replace=False)
    blind = signs[unread].copy()
    blind[:, -len(EMBEDDING_FEATURES) :] = UNKNOWN
    weights = np.r_[weights[chosen], UNREAD_WEIGHT * weights[unread]]
    data = lightgbm.Dataset(np.r_[signs[chosen], blind], table.asked[np.r_[chosen, unread]], weight=weights)
    return lightgbm.train(PARAMETERS, data, ROUNDS)


def _check(table: Table, signs: Any) -> int:
    """For each bound and split, fitted without it: changed and stored, true and asked about, paraphrases stored."""
    scores = np.full(len(signs), -9.0)
    speakers = sorted(set(table.group[table.source == "observed"]))
    kinds = {name: (table.source == name) & ~table.copy for name in SPLITS}
    kinds["observed"] = np.isin(table.group, speakers[::4])
    for name, kind in kinds.items():
        for group in [speakers[::4]] if name == "observed" else sorted({*table.group[kind]}):
            held = np.isin(table.group, group)
            scores[held] = _trees(table, signs, ~held).predict(signs[held], raw_score=True)
    changed, true, same = (np.isin(table.label, each) for each in (CHANGED, TRUE, ("paraphrase",)))
    written = np.any([kinds[name] for name in SPLITS], axis=0)
    for bound in BOUNDS:
        asked = np.where(table.free, scores >= bound, table.outcome != "stored")
        line = [
            f"{name} {(~asked[kind & changed]).sum()}/{(kind & changed).sum()} {asked[kind & true].sum()}/"
            f"{(kind & true).sum()} {(~asked[kind & same]).sum()}/{(kind & same).sum()}"
            for name, kind in (kinds | {"all": written}).items()
        ]
        print(f"{bound:5}: " + ", ".join(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
