"""Fit the weights of memory/comparison/change_score.py: `python -m benchmarks.fact_pairs.fit [LOCOMO]`.

Logistic regression on those pairs of SPLITS that no other rule decides, and on the observations of LoCoMo's
conversations with the older ones nearest to them, which are as good as all true. Prints the weights, and how many of
the changed and of the true pairs have a score over each bound: the one that is chosen is taken off the bias.
"""

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.locomo import DEFAULT_FILE

SPLITS = ("dev", "wide", "third", "told", "locomo")
WEIGHT = {"third": 1.5, "told": 1.5, "locomo": 0.02}
BOUNDS = (-0.9, -0.8, -0.7, -0.6, -0.5)
UNSEEN_CONVERSATIONS, OLDER = 2, 12
RIDGE, STEPS = 5.0, 30
TRUE = ("refinement", "compatible", "unrelated")


def main() -> int:
    os.environ.setdefault("DATABASE_URL", "postgresql:///unused?host=/nonexistent")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    import django

    django.setup()
    from memory.comparison.change_score import WEIGHTS

    pairs = [json.loads(line) for line in Path(__file__).with_name("pairs.jsonl").read_text().splitlines()]
    pairs += _observations(json.loads(Path(*sys.argv[1:2] or [DEFAULT_FILE]).read_text()))
    rows = _rows(pairs)
    names = [name for name in WEIGHTS if name != "bias"]
    signs = np.array([[row.get(name, 0.0) for name in names] for row, _ in rows], float)
    free = np.array([undecided for _, undecided in rows])
    changed = np.array([pair["label"] not in TRUE for pair in pairs], float)
    splits = np.array([pair["split"] for pair in pairs])
    chosen = free & np.isin(splits, SPLITS)
    weights = np.array([WEIGHT.get(pair["split"], 1.0) for pair in pairs])
    fitted = _fit(signs[chosen], changed[chosen], weights[chosen])
    print({name: round(float(value), 2) for name, value in zip(["bias", *names], fitted, strict=True)})
    scores = np.c_[np.ones(len(signs)), signs] @ fitted
    for bound in BOUNDS:
        line = []
        for split in dict.fromkeys(splits):
            kinds = [free & (splits == split) & (changed == kind) for kind in (1, 0)]
            over = [f"{(scores[kind] >= bound).sum()}/{kind.sum()}" for kind in kinds]
            line.append(" ".join((str(split), *over)))
        print(f"{bound:4}: " + ", ".join(line))
    return 0


def _observations(conversations: list[Any]) -> list[dict[str, Any]]:
    """Each observation with the OLDER ones of its speaker before it that are nearest."""
    found = []
    for number, conversation in enumerate(conversations):
        sessions = conversation["observation"]
        said = [
            (who, line[0])
            for name in sorted(sessions, key=lambda name: int(name.split("_")[1]))
            for who, lines in sessions[name].items()
            for line in lines
        ]
        vectors = _vectors([text for _, text in said])
        for place, (who, text) in enumerate(said):
            older = {other for speaker, other in said[:place] if speaker == who and other != text}
            nearest = sorted(older, key=lambda other: -float(vectors[other] @ vectors[text]))[:OLDER]
            split = "unseen" if number < UNSEEN_CONVERSATIONS else "locomo"
            about = {"split": split, "label": "compatible", "subject": who}
            found += [about | {"old": other, "new": text} for other in nearest]
    return found


def _vectors(texts: list[str]) -> dict[str, Any]:
    from memory.embedding.registry import embedder_named
    from memory.embedding.thresholds import DEFAULT_MODEL

    each = list(dict.fromkeys(texts))
    return dict(zip(each, embedder_named(DEFAULT_MODEL).embed_documents(each), strict=True))


def _rows(pairs: list[dict[str, Any]]) -> list[tuple[dict[str, float], bool]]:
    """The signs of each pair, and whether the score decides about it."""
    from memory.comparison import change_score, compare
    from memory.comparison.snapshot import FactSnapshot
    from memory.embedding.thresholds import DEFAULT_MODEL, thresholds_of

    thresholds, learned = thresholds_of(DEFAULT_MODEL), datetime(2026, 1, 1, tzinfo=UTC)
    vectors = _vectors([text for pair in pairs for text in (pair["old"], pair["new"])])
    rows = []
    for pair in pairs:
        cosine, subject = float(vectors[pair["old"]] @ vectors[pair["new"]]), pair.get("subject", "")
        old = FactSnapshot(pair["old"], subject, moment=learned)
        new = FactSnapshot(pair["new"], subject, moment=learned + timedelta(days=1))
        signs: dict[str, float] = {}
        outcomes = []
        for score in (-1.0, 1.0):

            def scored(*given: Any, score: float = score, signs: dict[str, float] = signs) -> float:
                signs.update(change_score.signs_of(*given))
                return score

            compare.change_score = scored
            outcomes.append(compare.compare_facts(old, new, cosine, thresholds).outcome)
        rows.append((signs, outcomes[0] is not outcomes[1]))
    return rows


def _fit(signs: Any, changed: Any, weights: Any) -> Any:
    """By Newton's method, on signs of one scale; returned are the weights of the signs as they are, bias first."""
    mean, scale = signs.mean(0), signs.std(0) + 1e-6
    table = np.c_[np.ones(len(signs)), (signs - mean) / scale]
    ridge = np.r_[1e-6, np.full(len(scale), RIDGE)]
    found = np.zeros(table.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-table @ found))
        slope = table.T @ (weights * (chance - changed)) + ridge * found
        bend = (table * (weights * chance * (1 - chance))[:, None]).T @ table + np.diag(ridge)
        found -= np.linalg.solve(bend, slope)
    return np.r_[found[0] - (found[1:] * mean / scale).sum(), found[1:] / scale]


if __name__ == "__main__":
    sys.exit(main())
