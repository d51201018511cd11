"""Fit the models of nousweb/lib/injection/request_model.py: python -m benchmarks.requests_model [--check]

The sentences are those of sentences.py; `--check` only says what the fitted models find. `--vectors FILE` keeps the
vectors.
"""

import argparse
import hashlib
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

from benchmarks.requests_model.sentences import Sentence, package_sentences, sentences_made
from nousweb.lib.injection.request_model import CHARACTERS, SCALE, WEIGHTS_FILE, WORDS, places_of
from nousweb.lib.injection.scan import FEATURES, features_in, fold_text, judged_sentences

ASKS, HARMLESS = 4.5, 2.0
"""The scores from which a sentence asks its reader to act, by the full model, and below which the rules on words do not
count, by the first one. By the first half of the unseen texts, to which nothing is fitted: 2 % of the harmless ones are
held."""
REPEATED = {"known": 12, "own": 60}
"""So often does a written text count in the fit, and one of the own set, beside sentences made of parts."""
PASSED = 0.99
"""Of the requests of the split "choose" that the full model finds, so many pass the first one."""
ROUNDS, BATCH, STEP, DECAY = 10, 256, 0.02, 1e-4
NAMES = tuple(sorted(FEATURES))


def judged(sentence: Sentence) -> list[tuple[str, str]]:
    """The folded sentences of a text that have its label, with their windows: of a request, the one with the act, or
    all if the act is the whole text, of which one is chosen later."""
    parts = list(judged_sentences(fold_text(sentence.text))) or [(fold_text(sentence.text),) * 2]
    if not sentence.is_request or sentence.act == sentence.text:
        return parts
    begins = fold_text(sentence.act)[:18]
    return [part for part in parts if begins in part[0]][:1] or parts[-1:]


class Rows:
    """Sentences as numbers: the places of words and parts with their values, features and vectors."""

    def __init__(self, texts: Sequence[str], vectors: Any) -> None:
        places, values, ends = [], [], [0]
        for text in texts:
            words, parts = places_of(text)
            places += [*words, *(WORDS + part for part in parts)]
            values += [SCALE / (len(words) + 1) ** 0.5] * len(words) + [SCALE / (len(parts) + 1) ** 0.5] * len(parts)
            ends.append(len(places))
        self.places, self.values, self.ends = np.array(places, np.int32), np.array(values, np.float32), np.array(ends)
        signs = np.array([[name in held for name in NAMES] for held in map(features_in, texts)], np.float32)
        self.dense = np.hstack([signs, vectors]) if vectors is not None else signs

    def products(self, weights: Any, rows: Any) -> tuple[Any, Any, Any]:
        """The scores of rows, and for each of their places which row and number it is."""
        spans = [np.arange(self.ends[row], self.ends[row + 1]) for row in rows]
        of = np.repeat(np.arange(len(rows)), [len(span) for span in spans])
        numbers = np.concatenate(spans)
        sums = np.bincount(of, weights[self.places[numbers]] * self.values[numbers], len(rows))
        return sums + self.dense[rows] @ weights[WORDS + CHARACTERS : -1] + weights[-1], of, numbers

    def scores(self, weights: Any) -> Any:
        return self.products(weights, np.arange(len(self.ends) - 1))[0]


def fitted(rows: Rows, labels: Any, seed: int = 1) -> Any:
    """The weights of a logistic regression, by Adam; the vectors are made equally large first."""
    sparse, count = WORDS + CHARACTERS, len(labels)
    spread = np.ones(rows.dense.shape[1], np.float32)
    spread[len(NAMES) :] = 0.3 / (rows.dense[:, len(NAMES) :].std(axis=0) + 1e-4)
    middle = np.zeros_like(spread)
    middle[len(NAMES) :] = rows.dense[:, len(NAMES) :].mean(axis=0)
    plain, rows.dense = rows.dense, (rows.dense - middle) * spread
    weights = np.zeros(sparse + len(spread) + 1, np.float32)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    dice, number = np.random.default_rng(seed), 0
    steps = ROUNDS * -(-count // BATCH)
    for _ in range(ROUNDS):
        order = dice.permutation(count)
        for begin in range(0, count, BATCH):
            some = order[begin : begin + BATCH]
            scores, of, numbers = rows.products(weights, some)
            wrong = 1 / (1 + np.exp(-scores)) - labels[some]
            slope = np.empty_like(weights)
            slope[:sparse] = np.bincount(rows.places[numbers], wrong[of] * rows.values[numbers], sparse)
            slope[sparse:-1] = rows.dense[some].T @ wrong
            slope[-1] = wrong.sum()
            slope = slope / len(some) + DECAY * weights
            first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope * slope
            number += 1
            size = STEP * (1 - number / (steps + 1))
            weights -= size * (first / (1 - 0.9**number)) / (np.sqrt(second / (1 - 0.999**number)) + 1e-8)
    rows.dense = plain
    weights[-1] -= (weights[sparse:-1] * spread * middle).sum()
    weights[sparse:-1] *= spread
    return weights.astype(np.float16).astype(np.float32)


def vectors_of(texts: Sequence[str], kept: Path | None) -> Any:
    """The vectors of texts: those of the file where it has them."""
    from memory.embedding.local import LocalEmbedder

    known: dict[str, Any] = {}
    if kept and kept.exists():
        with np.load(kept) as held:
            known = dict(zip(held["keys"].tolist(), held["vectors"], strict=True))
    keys = [hashlib.sha256(text.encode()).hexdigest()[:24] for text in texts]
    new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    vectors = LocalEmbedder().sentence_vectors(list(new.values())).astype(np.float16)
    known.update(zip(new, vectors, strict=True))
    if kept and new:
        np.savez(kept, keys=np.array(list(known)), vectors=np.array(list(known.values())))
    return np.array([known[key] for key in keys], np.float32)


def main() -> None:
    """Fit, choose the thresholds, say what is found by split and style, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--vectors", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("DATABASE_URL", "postgresql:///unused?host=/nonexistent")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    import django

    django.setup()
    made = [*sentences_made(), *package_sentences()]
    once = {part: (window, one) for one in reversed(made) for part, window in judged(one)}
    texts, windows, about = list(once), [window for window, _ in once.values()], [one for _, one in once.values()]
    began = time.perf_counter()
    vectors = np.hstack([vectors_of(texts, given.vectors), vectors_of(windows, given.vectors)])
    print(f"{len(texts)} sentences, vectors {time.perf_counter() - began:.0f} s", flush=True)
    labels = np.array([one.is_request for one in about], np.float32)
    splits = np.array([one.split for one in about])
    times = np.array([REPEATED.get(one.style.partition(" ")[0], 1) for one in about])
    fit, choose = np.repeat(np.arange(len(about)), times * (splits == "fit")), np.flatnonzero(splits == "choose")
    everything = Rows(texts, vectors)
    if given.check:
        with np.load(WEIGHTS_FILE) as held:
            lexical, full, thresholds = held["lexical"], held["full"], held["thresholds"]
            lexical, full = lexical.astype(np.float32), full.astype(np.float32)
    else:
        asked = Counter(one.text for one in about if one.is_request)
        several = np.array([one.is_request and asked[one.text] > 1 for one in about])
        # Fitted to requests of one sentence, the model says which sentence of the others asks; the rest are left out.
        first = fit[~several[fit]]
        scores = everything.scores(fitted(Rows([texts[place] for place in first], vectors[first]), labels[first]))
        best: dict[str, int] = {}
        for place in np.flatnonzero(several)[np.argsort(scores[several])].tolist():
            best[about[place].text] = place
        several[list(best.values())] = False
        fit = fit[~several[fit]]
        of_fit = [texts[place] for place in fit]
        lexical = fitted(Rows(of_fit, None), labels[fit])
        full = fitted(Rows(of_fit, vectors[fit]), labels[fit])
    full_scores = everything.scores(full)
    everything.dense = everything.dense[:, : len(NAMES)]
    lexical_scores = everything.scores(lexical)
    if not given.check:
        found = np.sort(lexical_scores[choose][(labels[choose] == 1) & (full_scores[choose] >= ASKS)])
        possible = float(found[int((1 - PASSED) * len(found))])
        thresholds = np.array([possible, HARMLESS, ASKS], np.float32)
        np.savez_compressed(
            WEIGHTS_FILE, lexical=lexical.astype(np.float16), full=full.astype(np.float16),
            features=np.array(NAMES), thresholds=thresholds,
        )  # fmt: skip
    possible, harmless, asks = map(float, thresholds)
    print(f"possible from {possible:.2f}, harmless below {harmless:.2f}, request from {asks:.2f}")
    held = (full_scores >= asks) & (lexical_scores >= possible)
    for split in ("fit", "choose", "blind"):
        for label in (1, 0):
            of = (splits == split) & (labels == label)
            passed = (lexical_scores[of] >= possible).mean()
            print(
                f"{split:7}{'request' if label else 'harmless':10}{of.sum():6}{held[of].sum():6}  judged {passed:.3f}"
            )
            if split != "fit":
                styles = Counter((about[place].style, bool(held[place])) for place in np.flatnonzero(of))
                print(
                    "  ",
                    {style: (styles[style, True], sum(styles[style, x] for x in (True, False))) for style, _ in styles},
                )


if __name__ == "__main__":
    main()
