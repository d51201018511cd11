"""Fit the ranker of the search and write memory/search/ranker.json: python -m benchmarks.fit_ranker LOCOMO BEAM

LOCOMO is a file in LoCoMo's format, BEAM a folder of chats in BEAM's (benchmarks.locomo, benchmarks.beam). Every
question with evidence is one list: the candidates that the product's own statements fetch for it, and whether each is
evidence. LoCoMo's questions are asked of a memory of the turns alone and of one that has the observations too. The
cutoff also learns from benchmarks/kinds_of_input: from half of the beliefs with scopes, where one of several that are
alike answers, and from harmless reports, each asked for by its own words.

Needs lightgbm (benchmarks/requirements.txt), which the product does not. `--check` fits without the conversation that
is measured, then without its corpus, and writes nothing. `--without CORPUS --into FILE` writes a ranker that was fitted
without a corpus, for benchmarks.kinds_of_input.
"""

import argparse
import json
import sys
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import beam, context_curve, locomo
from benchmarks.kinds_of_input import __main__ as kinds_of_input
from benchmarks.system import PROJECT, RESULTS, System, system
from benchmarks.vector_cache import vectors_keep

TARGET = PROJECT / "memory" / "search" / "ranker.json"
LINEAR = 0.6
"""Share of the linear score (memory.search.fusion.rank) that the trees correct."""
TREES = 107
SEEDS = (1, 2, 3)
"""Of so many fits the mean is taken, TREES each: what one of them finds differs by .005 from what the next one does.
With half the trees, questions of a corpus that was left out find less."""
HALF_GAP = 3.0
RECALL_WEIGHT = 1.7
"""How the two are chosen says docs/benchmarks.md."""
FOLDS = 5
STEPS, RIDGE = 25, 0.01
"""Of the logistic regression."""
CHANCE_OF = 60
"""From the best so many candidates of a list the chance is learned."""
RISING = {
    "cosine", "passage", "second", "close", "close_behind", "close_apart", "lexical", "lexical_behind", "own",
    "own_behind", "name", "loop", "loop_behind", "time", "before", "after", "linear", "linear_behind", "standing",
    "coverage", "coverage_behind", "lexemes_held", "lexical_after", "person", "early", "early_asked", "linear_apart",
    "closest_behind",
}  # fmt: skip
FALLING = {
    "close_place", "words", "lexical_place", "linear_place", "own_place", "passage_place", "loop_place",
}  # fmt: skip
"""More of the first never counts against a candidate, more of the others never for it: so the unseen stays sensible."""
PLACES, PLACE_GAIN = {"early", "in_loop"}, 0.5
"""What splits by the place in a chat gain is counted half: it tells more within a corpus than across corpora."""
PARAMETERS = {
    "objective": "lambdarank",
    "lambdarank_truncation_level": 30,
    "lambdarank_norm": False,
    "num_leaves": 7,
    "max_depth": 3,
    "learning_rate": 0.12,
    "min_data_in_leaf": 40,
    "lambda_l2": 5,
    "feature_fraction": 0.4,
    "max_bin": 63,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
SCOPES, REPORTS = "scopes", "reports"
"""The corpora of benchmarks/kinds_of_input from which only the cutoff learns."""
KIN = {"locomo": {"locomo", "mixed"}, "beam": {"beam"}}
CUTOFF_WEIGHT = {"locomo": 1000.0, "mixed": 1000.0, "beam": 1000.0, SCOPES: 300.0, REPORTS: 300.0}
"""For the cutoff, of all questions of a corpus together."""
LIST_WEIGHT = {"locomo": 800.0, "mixed": 700.0, "beam": 1000.0}
"""Of all questions of a corpus together."""
FEW, CHANCE = 35, 0.1
"""Of a list the best so many by words and by meaning are learned from, all evidence, and others by this chance."""


@dataclass(slots=True)
class QuestionRun:
    """One question: its corpus and conversation, a row of features for each candidate, and what each stands for.

    `log_odds` are the answerability: that the collection holds anything about it.
    """

    corpus: str
    conversation: str
    kind: str
    evidence: frozenset[Any]
    matrix: Any
    keys: list[frozenset[Any]]
    log_odds: float

    @property
    def right(self) -> Any:
        return np.array([bool(key & self.evidence) for key in self.keys])


def asked_all(running: System, locomo_file: Path, beam_folder: Path) -> list[QuestionRun]:
    """Every question of both corpora with what the product fetches for it."""
    found: list[QuestionRun] = []
    samples = json.loads(locomo_file.read_text())
    memories = [context_curve.remembered(running, sample) for sample in samples]
    alone = [context_curve.remembered(running, sample, "-turns", facts=False) for sample in samples]
    chats = {chat: _chat(running, chat) for chat in beam.chats_of(beam_folder)}
    [scoped], _ = kinds_of_input.precision_stores()
    plain = [(SCOPES, SCOPES, scoped, scoped.asked[::2])]
    for number, store in enumerate(kinds_of_input.report_stores("dev")):
        plain.append((REPORTS, f"{REPORTS}-{number}", store, store.asked))
    places = {name: _plain(running, name, store) for _, name, store, _ in plain}
    running.embed_all()
    for corpus, stores, types in (("mixed", memories, ("event", "fact")), ("locomo", alone, ("event",))):
        for memory, both in zip(stores, memories, strict=True):
            turns = {key: frozenset(value) for key, value in memory.turns.items()}
            for question in memory.questions:
                kind = locomo.CATEGORIES[question["category"]]
                matrix, keys, log_odds = _fetched(memory.name, question["question"], types)
                held = [turns.get(key, frozenset()) for key in keys]
                evidence = frozenset(question["evidence"])
                found.append(QuestionRun(corpus, both.name, kind, evidence, matrix, held, log_odds))
    for chat, (name, messages) in chats.items():
        for question in beam.questions_of(chat, set(messages.values())):
            matrix, keys, log_odds = _fetched(name, question["question"], ("event",))
            held = [frozenset([messages[key[1]]]) for key in keys]
            evidence = frozenset(question["evidence"])
            found.append(QuestionRun("beam", name, question["kind"], evidence, matrix, held, log_odds))
    for corpus, name, _, asked in plain:
        for text, needed in asked:
            matrix, keys, log_odds = _fetched(name, text, ("event",))
            held = [frozenset([places[name][key[1]]]) for key in keys]
            found.append(QuestionRun(corpus, name, corpus, frozenset(needed), matrix, held, log_odds))
    return found


def _plain(running: System, name: str, store: kinds_of_input.Store) -> dict[str, int]:
    """An agent with the events of a store; the place of each by its id."""
    posted = running.agent(name).post("/events", {"events": store.events})["events"]
    return {str(event["id"]): place for place, event in enumerate(posted)}


def _chat(running: System, chat: Path) -> tuple[str, dict[str, int]]:
    name = f"chat-{chat.name}"
    client, events, messages = running.agent(name), beam.messages_of(chat), {}
    for begin in range(0, len(events), 200):
        part = events[begin : begin + 200]
        for event, stored in zip(part, client.post("/events", {"events": part})["events"], strict=True):
            messages[str(stored["id"])] = event["metadata"]["message"]
    return name, messages


def _fetched(slug: str, question: str, types: Sequence[str]) -> tuple[Any, list[tuple[str, str]], float]:
    """What the ranker sees of a question's candidates, the type and id of each, and the log-odds of answerability."""
    from identity.models import Agent
    from memory.embedding import embedder_named
    from memory.models import GLOBAL, SearchItem
    from memory.persona import ActorMemory
    from memory.search.fusion import answerability_log_odds, features, rarest_lexemes
    from memory.search.query_word_counts import counts_read
    from memory.search.ranking_features import query_of, ranking_features
    from memory.search.request import SearchRequest
    from memory.search.row_retrieval import candidates_fetch, lexical_fetch

    view = ActorMemory(Agent.objects.get(slug=slug))
    request = SearchRequest(question, GLOBAL, types=types, limit=100, min_score=0.0)
    counts = counts_read(view, question)
    lexemes = rarest_lexemes(counts.df, counts.statistics)
    lexical = lexical_fetch(view, request, counts, lexemes)
    vector = embedder_named(counts.model).embed_query(question)
    candidates = candidates_fetch(view, request, counts, lexemes, lexical=lexical, vector=vector)
    query = query_of(question, lexemes)
    rows = candidates.columns
    seen = features(query, rows, counts.statistics)
    matrix = ranking_features(query, rows, seen, counts.statistics)[candidates.wanted]
    shown = [key for key, wanted in zip(candidates.ids, candidates.wanted, strict=True) if wanted]
    held = {
        row_id: (item_type, item_id)
        for row_id, item_type, item_id in SearchItem.objects.filter(agent=view.agent, id__in=shown).values_list(
            "id", "item_type", "item_id"
        )
    }
    return matrix, [held[key] for key in shown], answerability_log_odds(seen, counts.items)


def fitted(questions: Sequence[QuestionRun]) -> dict[str, Any]:
    """Trees over the questions, and chances from trees that have not seen them, as the product reads both."""
    return _model(trees_of(_learned(questions)), trees_unseen(questions), questions)


def trees_unseen(questions: Sequence[QuestionRun]) -> dict[str, dict[str, Any]]:
    """For each conversation, trees that have not seen it."""
    learned, found = _learned(questions), {}
    for out in folds_of(learned):
        found |= dict.fromkeys(out, trees_of([one for one in learned if one.conversation not in out]))
    return found


def _learned(questions: Sequence[QuestionRun]) -> list[QuestionRun]:
    return [one for one in questions if one.evidence and one.corpus in LIST_WEIGHT]


def _model(
    trees: dict[str, Any], unseen: dict[str, dict[str, Any]], questions: Sequence[QuestionRun]
) -> dict[str, Any]:
    """The model of `trees`, with the chances of the questions as those score them that have not seen them."""
    from memory.search.ranking_features import CUTOFF_FEATURES

    asked = [one for one in questions if one.evidence]
    chance = chance_of(asked, [scored(unseen.get(one.conversation, trees), one) for one in asked])
    weights = dict(zip(CUTOFF_FEATURES, chance, strict=True))
    return trees | {"half_gap": HALF_GAP, "recall_weight": RECALL_WEIGHT, "chance": weights}


def folds_of(questions: Sequence[QuestionRun]) -> list[set[str]]:
    """Conversations in folds, in each as many of one corpus as of another, as far as they go."""
    names = list(dict.fromkeys(one.conversation for one in questions))
    beams = {one.conversation for one in questions if one.corpus == "beam"}
    others = [name for name in names if name not in beams]
    found = [{*others[n::FOLDS], *[name for name in names if name in beams][n::FOLDS]} for n in range(FOLDS)]
    return [fold for fold in found if fold]


def chance_of(questions: Sequence[QuestionRun], scores: Sequence[Any]) -> list[float]:
    """Weights of the signs of memory.search.ranking, by a logistic regression (Newton's method)."""
    rows, labels, weights = [], [], []
    corpora = [one.corpus for one in questions]
    for one, ranks in zip(questions, scores, strict=True):
        order = best_first(one, ranks)
        rows.append(signs_of(one, ranks, order)[:CHANCE_OF])
        labels.append(one.right[order][:CHANCE_OF])
        weights.append(np.full(len(labels[-1]), CUTOFF_WEIGHT[one.corpus] / corpora.count(one.corpus)))
    matrix, right, weight = np.vstack(rows), np.concatenate(labels), np.concatenate(weights)
    found = np.zeros(matrix.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-(matrix @ found)))
        slope = matrix.T @ (weight * (right - chance)) - RIDGE * found
        curve = (matrix * (weight * chance * (1 - chance))[:, None]).T @ matrix + RIDGE * np.eye(len(found))
        found += np.linalg.solve(curve, slope)
    return [round(float(value), 4) for value in found]


def best_first(one: QuestionRun, ranks: Any) -> Any:
    from memory.search.ranking_features import FEATURE_NAMES

    return np.lexsort((np.arange(len(ranks)), -one.matrix[:, FEATURE_NAMES.index("close")], -ranks))


def shared(one: QuestionRun, order: Any) -> Any:
    """The order in which the product shows what the ranker has put in `order`."""
    from memory.search.input_kinds import ASKED
    from memory.search.ranking import WORDED, orders_merged
    from memory.search.ranking_features import FEATURE_NAMES

    close, own, coverage = (one.matrix[:, FEATURE_NAMES.index(name)] for name in ("close", "own", "coverage"))
    by_meaning, by_words = (order[np.argsort(-values[order], kind="stable")] for values in (close, own))
    orders = [order, order, by_meaning, by_words[own[by_words] > 0]]
    return orders_merged(orders, ASKED[bool(coverage.max() >= WORDED)])


def signs_of(one: QuestionRun, ranks: Any, order: Any) -> Any:
    """What the chances of the candidates follow from, the best first."""
    from memory.search.ranking import cutoff_features
    from memory.search.ranking_features import FEATURE_NAMES

    close, many = one.matrix[:, FEATURE_NAMES.index("close")], one.matrix[0, FEATURE_NAMES.index("wants_many")]
    return cutoff_features(ranks[order], close[order], one.log_odds, bool(many))


def trees_of(questions: Sequence[QuestionRun]) -> dict[str, Any]:
    """Trees over the questions, packed: each of SEEDS has its part in the score."""
    import lightgbm

    from memory.search.ranking_features import FEATURE_NAMES

    random = np.random.default_rng(1)
    linear, close = FEATURE_NAMES.index("linear"), FEATURE_NAMES.index("close")
    corpora = [one.corpus for one in questions]
    rows, labels, groups, weights, begins = [], [], [], [], []
    for one in questions:
        right = one.right
        if not right.any():
            continue
        kept = right | (random.random(len(right)) < CHANCE)
        for column in (linear, close):
            kept[np.argsort(-one.matrix[:, column], kind="stable")[:FEW]] = True
        rows.append(one.matrix[kept])
        labels.append(right[kept].astype(int))
        groups.append(int(kept.sum()))
        weights.append(np.full(kept.sum(), LIST_WEIGHT[one.corpus] / corpora.count(one.corpus)))
        begins.append(LINEAR * one.matrix[kept][:, linear])
    directions = [1 if name in RISING else -1 if name in FALLING else 0 for name in FEATURE_NAMES]
    gains = [PLACE_GAIN if name in PLACES else 1.0 for name in FEATURE_NAMES]
    parameters = PARAMETERS | {"monotone_constraints": directions, "feature_contri": gains}
    data = lightgbm.Dataset(
        np.vstack(rows),
        np.concatenate(labels),
        group=groups,
        weight=np.concatenate(weights),
        init_score=np.concatenate(begins),
        params=parameters,
    )
    models = [lightgbm.train(parameters | {"seed": seed}, data, num_boost_round=TREES) for seed in SEEDS]
    trees = [tree for model in models for tree in trees_as_read(model, len(SEEDS))]
    return {"names": list(FEATURE_NAMES), "linear": LINEAR, "trees": trees_packed(trees)}


def trees_packed(trees: Sequence[dict[str, list[float]]]) -> str:
    """Trees as a file holds them, a fifth as long as their numbers in words: of each number three digits are kept."""
    from nousweb.lib.boosted_trees import PACKED

    rows = [tuple(tree[name] for name in PACKED.names or ()) for tree in trees]
    return b64encode(np.array(rows, PACKED).tobytes()).decode()


def trees_as_read(model: Any, models: int = 1) -> list[dict[str, list[float]]]:
    """The trees of a fitted LightGBM model, as the product reads them; of so many `models` the mean is their sum."""
    return [_tree(one, models) for one in model.dump_model()["tree_info"]]


def _tree(info: dict[str, Any], models: int) -> dict[str, list[float]]:
    """One tree as nousweb.lib.boosted_trees reads it: complete, where it ends early both ways lead to one value."""
    from nousweb.lib.boosted_trees import DEPTH, LEAVES, NODES

    features, thresholds, leaves = [0] * NODES, [0.0] * NODES, [0.0] * LEAVES

    def walk(part: dict[str, Any], node: int, depth: int) -> None:
        ends = "leaf_value" in part
        if depth == DEPTH:
            leaves[node - NODES] = round(part["leaf_value"] / models, 4)
            return
        if not ends:
            features[node], thresholds[node] = part["split_feature"], round(part["threshold"], 4)
        walk(part if ends else part["left_child"], 2 * node + 1, depth + 1)
        walk(part if ends else part["right_child"], 2 * node + 2, depth + 1)

    walk(info["tree_structure"], 0, 0)
    return {"features": features, "thresholds": thresholds, "leaves": leaves}


def scored(model: dict[str, Any], one: QuestionRun) -> Any:
    """The product's score of each candidate."""
    return _ranker(model).scores(one.matrix)


def _ranker(model: dict[str, Any]) -> Any:
    from memory.search.ranking_features import CUTOFF_FEATURES, build_ranker

    return build_ranker(
        {"half_gap": HALF_GAP, "recall_weight": RECALL_WEIGHT, "chance": dict.fromkeys(CUTOFF_FEATURES, 0.0)} | model
    )


def recalls(one: QuestionRun, order: Sequence[int], ks: Sequence[int] = (5, 10, 20, 50)) -> list[float]:
    found = []
    for k in ks:
        seen = frozenset().union(*(one.keys[place] for place in order[:k]))
        found.append(len(seen & one.evidence) / len(one.evidence))
    return found


def kept(one: QuestionRun, model: dict[str, Any], ranks: Any, order: Any) -> list[int]:
    """The candidates above the threshold, best first."""
    from memory.search.fusion import RELEVANT, relevance
    from memory.search.ranking import relevance_cutoff
    from memory.search.ranking_features import FEATURE_NAMES

    learned = _ranker(model)
    close, many = one.matrix[:, FEATURE_NAMES.index("close")], one.matrix[0, FEATURE_NAMES.index("wants_many")]
    cutoff = relevance_cutoff(learned, ranks[order], close[order], one.log_odds, bool(many))
    value = relevance(ranks[order[0]] - ranks, one.log_odds, learned.half_gap, cutoff)
    return [place for place in order if value[place] >= RELEVANT]


def check(questions: Sequence[QuestionRun]) -> dict[str, Any]:
    """MEASURES by corpus and kind, fitted without what is measured."""

    found: dict[str, Any] = {}
    by_fold: dict[str, dict[str, Any]] = {"conversation": {}, "corpus": {}}
    measured = [one for one in questions if one.corpus in LIST_WEIGHT]
    unseen = trees_unseen(questions)
    for out in folds_of(_learned(questions)):
        others = [one for one in questions if one.conversation not in out]
        by_fold["conversation"] |= dict.fromkeys(out, _model(unseen[min(out)], unseen, others))
    for kin in KIN.values():
        by_fold["corpus"] |= dict.fromkeys(kin, fitted([one for one in questions if one.corpus not in kin]))
    for label, fold in (("conversation", "conversation"), ("corpus", "corpus")):
        models = by_fold[fold]
        found[f"without the {label}"] = _measured(
            measured,
            lambda one, models=models, fold=fold: (  # type: ignore[misc]
                scored(models[getattr(one, fold)], one),
                models[getattr(one, fold)],
            ),
        )
    return found


MEASURES = ("@5", "@10", "@20", "@50", "kept@10", "precision@10", "kept@20", "precision@20", "returned@20")


def _measured(
    questions: Sequence[QuestionRun], score: Callable[[QuestionRun], tuple[Any, dict[str, Any] | None]]
) -> dict[str, list[float]]:
    """MEASURES by corpus and kind; of what has no evidence, only how many of twenty are above the threshold."""
    groups: dict[str, list[list[float]]] = {}
    for one in questions:
        ranks, model = score(one)
        order = best_first(one, ranks)
        first = shared(one, order)
        values = recalls(one, first) if one.evidence else [np.nan] * 4
        if model is not None:
            above = first[: len(kept(one, model, ranks, order))]
            for limit in (10, 20):
                part = above[:limit]
                values.append(recalls(one, part, [limit])[0] if one.evidence else np.nan)
                values.append(float(np.mean(one.right[part])) if len(part) and one.evidence else np.nan)
            values.append(float(len(above[:20])))
        for group in (one.corpus, f"{one.corpus}: {one.kind}") if one.evidence else (f"{one.corpus}: {one.kind}",):
            groups.setdefault(group, []).append(values)
    return {group: _mean(values) for group, values in sorted(groups.items())}


def _mean(values: list[list[float]]) -> list[float]:
    """Column by column, without what is missing."""
    columns = [[value for value in column if value == value] for column in zip(*values, strict=True)]
    return [round(float(np.mean(column)), 4) if column else float("nan") for column in columns]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("locomo", type=Path, nargs="?", default=locomo.DEFAULT_FILE)
    parser.add_argument("beam", type=Path, nargs="?", default=beam.DEFAULT_FOLDER)
    parser.add_argument("--check", action="store_true", help="measure without what is measured; write nothing")
    parser.add_argument("--without", choices=KIN, help="fit without this corpus")
    parser.add_argument("--into", type=Path, default=TARGET, help="the file to write")
    parser.add_argument("--vectors", type=Path, help="a file that keeps vectors for the next time")
    options = parser.parse_args()
    with system() as running:
        if options.vectors:
            vectors_keep(options.vectors)
        questions = asked_all(running, options.locomo, options.beam)
    if options.check:
        checked = check(questions)
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "left-out.json").write_text(json.dumps({"measures": MEASURES, "scores": checked}, indent=1))
        for label, found in checked.items():
            print(f"{label:36}" + "".join(f"{name:>14}" for name in MEASURES))
            for group, values in found.items():
                print(f"  {group:34}" + "".join(f"{value:>14.4f}" for value in values))
        return 0
    left_out = KIN.get(options.without, set())
    questions = [one for one in questions if one.corpus not in left_out]
    model = fitted(questions)
    card = {
        "card": {
            "about": "Which candidates of a search answer it: LambdaMART trees over memory.search.ranking_features,"
            " and the chance of each",
            "made by": "benchmarks/fit_ranker.py",
            "on": datetime.now(UTC).date().isoformat(),
            "from": [
                f"LoCoMo (snap-research/locomo, CC BY-NC 4.0), {options.locomo.name}",
                f"BEAM (mohammadtavakoli78/BEAM), {options.beam.name}",
                "benchmarks/kinds_of_input/precision.tsv, every second question, for the cutoff",
                "benchmarks/poisoning/requests.py, harmless texts of the half dev, for the cutoff",
            ],
            "without": options.without,
            "questions": sum(bool(one.evidence) for one in questions),
            "holds": "numbers fitted on those conversations, none of their text",
        },
    }
    parts = [f'"{key}": {json.dumps(value)}' for key, value in (card | model).items()]
    options.into.write_text("{" + ",\n".join(parts) + "}\n")
    print(f"{options.into}: {len(SEEDS) * TREES} trees, {options.into.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
