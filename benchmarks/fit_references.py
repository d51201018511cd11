"""Fit what decides whether an answer refers to a memory, and write context/feedback/reference_trees.json:
python -m benchmarks.fit_references [FILE]

The prompts, answers and labels are those of benchmarks/references.py, the labels as strict as there. First trees over
the words are fitted (context.feedback.reference_features), then trees that also see the cosines of what the first ones
leave possible. Needs lightgbm (benchmarks/requirements.txt), which the product does not. `--check` fits without the
conversation that is measured and writes nothing.
"""

import argparse
import json
import random
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.context_curve import remembered
from benchmarks.fit_ranker import trees_as_read
from benchmarks.locomo import CATEGORIES, DEFAULT_FILE
from benchmarks.references import gold_of, is_close, long_answers
from benchmarks.system import PROJECT, System, system
from benchmarks.vector_cache import vectors_keep

TARGET = PROJECT / "context" / "feedback" / "reference_trees.json"
WEIGHTS = {"answer": 1.0, "gold": 0.3, "unknown question": 0.3, "unrelated": 0.1}
"""Of a row by the kind of the answer; those of an unrelated answer are many."""
FEW, FEW_WEIGHT = 5, 0.3
"""Every prompt is learned from with so many of its memories too, since among few no word is rare."""
ROUNDS = 150
PARAMETERS = {
    "objective": "binary",
    "num_leaves": 8,
    "max_depth": 3,
    "learning_rate": 0.05,
    "min_data_in_leaf": 40,
    "lambda_l2": 5,
    "feature_fraction": 0.6,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "max_bin": 63,
    "seed": 1,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
RECALLS = (0.65, 0.70, 0.75)


@dataclass(slots=True)
class AnsweredPrompt:
    """A prompt and one answer to it, with all that `references_of` is given, and what each memory stands for."""

    conversation: str
    category: int
    kind: str
    """One of WEIGHTS: "answer", the same without names to an "unknown question", "gold" (that alone) or "unrelated"."""
    question: str
    answer: str
    memories: list[str]
    evidence: list[bool]
    close: list[bool]
    rarity: dict[str, float]
    vectors: Any


def answered_all(running: System, samples: Sequence[dict[str, Any]]) -> list[AnsweredPrompt]:
    """Every prompt of benchmarks/references.py that holds a memory, answered in each way."""
    from context.feedback.reference_detector import meaning_of, rarity_of
    from context.models import ContextRun
    from context.services.context import memories_shown
    from memory.persona import VIEWS

    found: list[AnsweredPrompt] = []
    memories = [remembered(running, sample) for sample in samples]
    running.embed_all()
    random.seed(1)
    for memory, sample in zip(memories, samples, strict=True):
        others = long_answers(samples, sample)
        speakers = (sample["conversation"]["speaker_a"], sample["conversation"]["speaker_b"])
        for question in memory.questions:
            made = memory.client.post("/context", {"session_id": "references", "input": question["question"]})
            run = ContextRun.objects.select_related("agent").get(pk=made["id"])
            view = VIEWS[run.persona](run.agent)
            items = [item for _, item in memories_shown(run)]
            if not items:
                continue
            meaning = meaning_of(view, items)
            turns = [memory.turns.get((item["type"], item["id"]), set()) for item in items]
            texts = [item["text"] for item in items]
            gold = gold_of(sample, question)
            whole = f"{question['question']} {gold}"
            # Answers say "they" of whom they are about.
            nameless = re.sub(rf"\b(?:{'|'.join(map(re.escape, speakers))})\b(?:'s)?", "they", whole)
            for kind, asked, answer in (
                ("answer", question["question"], whole),
                ("unknown question", "", nameless),
                ("gold", question["question"], str(gold)),
                ("unrelated", question["question"], random.choice(others)),
            ):
                found.append(
                    AnsweredPrompt(
                        memory.name, question["category"], kind, asked, answer, texts,
                        [bool(each & set(question["evidence"])) for each in turns],
                        [is_close(each, question["evidence"]) for each in turns],
                        rarity_of(view, answer, texts), meaning.vectors if meaning else None,
                    )
                )  # fmt: skip
    return found


def fitted(prompts: Sequence[AnsweredPrompt]) -> dict[str, Any]:
    """Trees as the product reads them."""
    chosen = np.random.default_rng(1)
    weighed = [(one, WEIGHTS[one.kind]) for one in prompts]
    weighed += [(_with_few(one, chosen), FEW_WEIGHT * weight) for one, weight in weighed]
    from context.feedback.content_words import content_words, windows_of
    from context.feedback.reference_detector import MEANING_NAMES, best_rows, meaning_rows
    from context.feedback.reference_features import NAMES, ShownMemories
    from nousweb.lib.boosted_trees import BoostedTrees

    prepared = []
    rows, labels, weights = [], [], []
    for one, weight in weighed:
        shown, windows = (
            ShownMemories(one.memories, one.question, one.rarity),
            windows_of(one.answer, content_words(one.answer)),
        )
        prepared.append((one, weight, shown, windows))
        for row in shown.rows(one.answer, windows):
            rows.append([row.values[name] for name in NAMES])
            labels.append(one.kind != "unrelated" and one.evidence[row.memory])
            weights.append(weight)
    words = _trees(rows, labels, weights, NAMES)
    rows, labels, weights = [], [], []
    for one, weight, shown, windows in prepared:
        if one.vectors is None:
            continue
        best = best_rows(shown, one.answer, windows, BoostedTrees.of(words))
        for place, values in meaning_rows(one.answer, one.question, windows, best, _meaning(one)).items():
            rows.append(values)
            labels.append(one.kind != "unrelated" and one.evidence[place])
            weights.append(weight)
    names = (*NAMES, *MEANING_NAMES)
    return {"names": list(names), "words": words, "meaning": _trees(rows, labels, weights, names)}


def _with_few(one: AnsweredPrompt, chosen: np.random.Generator) -> AnsweredPrompt:
    places = sorted(chosen.permutation(len(one.memories))[:FEW].tolist())
    return replace(
        one,
        memories=[one.memories[place] for place in places],
        evidence=[one.evidence[place] for place in places],
        close=[one.close[place] for place in places],
        vectors=None if one.vectors is None else one.vectors[places],
    )


def _trees(
    rows: list[Any], labels: list[bool], weights: list[float], names: Sequence[str]
) -> list[dict[str, list[float]]]:
    import lightgbm

    from context.feedback.reference_features import FALLING, RISING

    directions = [1 if name in RISING else -1 if name in FALLING else 0 for name in names]
    parameters = PARAMETERS | {"monotone_constraints": directions}
    data = lightgbm.Dataset(np.array(rows), np.array(labels, int), weight=np.array(weights), params=parameters)
    return trees_as_read(lightgbm.train(parameters, data, num_boost_round=ROUNDS))


def _meaning(one: AnsweredPrompt) -> Any:
    from context.feedback.reference_detector import Meaning
    from memory.embedding import embedder_named
    from memory.embedding.protocol import DEFAULT_MODEL

    return Meaning(one.vectors, embedder_named(DEFAULT_MODEL).embed_documents)


def scored(prompts: Sequence[AnsweredPrompt], model: dict[str, Any], *, meaning: bool) -> list[list[float]]:
    """The product's score of each memory."""
    from context.feedback.reference_detector import references_of, trees_of

    trees = trees_of(model)
    return [
        [
            reference.score
            for reference in references_of(
                one.answer, one.memories, question=one.question, rarity=one.rarity, trees=trees,
                meaning=_meaning(one) if meaning and one.vectors is not None else None,
            )
        ]
        for one in prompts
    ]  # fmt: skip


def figures(prompts: Sequence[AnsweredPrompt], scores: Sequence[Sequence[float]], at: float) -> dict[str, float]:
    """As benchmarks/references.py has them, referenced from the score `at` on; the other kinds of answers beside."""
    held = {
        kind: [
            (score >= at, evidence, close)
            for one, each in zip(prompts, scores, strict=True)
            if one.kind == kind
            for score, evidence, close in zip(each, one.evidence, one.close, strict=True)
        ]
        for kind in WEIGHTS
    }
    found: dict[str, float] = {"at": at}
    for kind, label in (("answer", ""), ("gold", "gold_"), ("unknown question", "unknown_")):
        marked = [(evidence, close) for referenced, evidence, close in held[kind] if referenced]
        right = sum(evidence for evidence, _ in marked)
        found[f"{label}recall"] = right / max(sum(evidence for _, evidence, _ in held[kind]), 1)
        found[f"{label}precision"] = right / max(len(marked), 1)
        if kind == "answer":
            found["close_aside"] = right / max(sum(evidence or not close for evidence, close in marked), 1)
    found["unrelated"] = sum(referenced for referenced, _, _ in held["unrelated"]) / max(len(held["unrelated"]), 1)
    return found


def check(prompts: Sequence[AnsweredPrompt]) -> None:
    """Print what trees find that were fitted without the conversation that is measured."""
    from context.feedback.reference_detector import REFERENCED_AT

    parts: dict[bool, list[tuple[AnsweredPrompt, list[float]]]] = {False: [], True: []}
    for name in dict.fromkeys(one.conversation for one in prompts):
        model = fitted([one for one in prompts if one.conversation != name])
        measured = [one for one in prompts if one.conversation == name]
        for meaning, held in parts.items():
            held += zip(measured, scored(measured, model, meaning=meaning), strict=True)
    for meaning, held in parts.items():
        print("words and meaning" if meaning else "words alone", flush=True)
        right = sorted(
            (
                score
                for one, scores in held
                if one.kind == "answer"
                for score, evidence in zip(scores, one.evidence, strict=True)
                if evidence
            ),
            reverse=True,
        )
        for at in (REFERENCED_AT, *(right[int(np.ceil(recall * len(right))) - 1] for recall in RECALLS)):
            _print("all", held, at)
        for number, label in CATEGORIES.items():
            _print(label, [one for one in held if one[0].category == number], REFERENCED_AT)
        for name in dict.fromkeys(one.conversation for one, _ in held):
            _print(name, [one for one in held if one[0].conversation == name], REFERENCED_AT)


def _print(label: str, held: Sequence[tuple[AnsweredPrompt, list[float]]], at: float) -> None:
    found = figures([one for one, _ in held], [scores for _, scores in held], at)
    print(f"  {label:12}" + "".join(f"{name} {value:.4f}  " for name, value in found.items()), flush=True)


def write(prompts: Sequence[AnsweredPrompt], source: Path) -> None:
    """Fit on all prompts, which are from the file `source`, and write TARGET."""
    card = {
        "about": "How likely an answer refers to a memory: log-odds, trees over context.feedback.reference_features",
        "made by": "benchmarks/fit_references.py",
        "on": datetime.now(UTC).date().isoformat(),
        "from": [f"LoCoMo (snap-research/locomo, CC BY-NC 4.0), {source.name}"],
        "prompts": sum(one.kind == "answer" for one in prompts),
        "holds": "numbers fitted on those conversations, none of their text",
    }
    model = {"card": card} | fitted(prompts)
    parts = [f'"{key}": {json.dumps(model[key])}' for key in ("card", "names")]
    for key in ("words", "meaning"):
        parts.append(
            f'"{key}": [\n' + ",\n".join(json.dumps(tree, separators=(",", ":")) for tree in model[key]) + "\n]"
        )
    TARGET.write_text("{" + ",\n".join(parts) + "}\n")
    print(f"{TARGET}: {len(model['words'])} and {len(model['meaning'])} trees, {TARGET.stat().st_size:,} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=DEFAULT_FILE, help="in LoCoMo's own format")
    parser.add_argument("--check", action="store_true", help="measure without what is measured; write nothing")
    parser.add_argument("--vectors", type=Path, help="a file that keeps vectors for the next time")
    options = parser.parse_args()
    with system() as running:
        if options.vectors:
            vectors_keep(options.vectors)
        prompts = answered_all(running, json.loads(options.file.read_text()))
    if options.check:
        check(prompts)
        return 0
    write(prompts, options.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
