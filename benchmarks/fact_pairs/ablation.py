"""What each rule of the comparison decides: `python -m benchmarks.fact_pairs.ablation`.

Prints the table of docs/benchmarks.md. Each rule is taken away alone: a word list is emptied, a phrase removed, a
function replaced by one that does nothing.
For each split: pairs whose outcome changes. `reasons`: pairs whose named difference changes. `variations`: of
the sentences against themselves with one word added, removed, moved or exchanged, those that are confirmed or
superseded with the rule and not without it, or the other way round. The embedder is asked once; no database is needed.
"""

import json
import os
import random
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

PAIRS = [json.loads(line) for line in Path(__file__).with_name("pairs.jsonl").read_text().splitlines()]
SPLITS = tuple(dict.fromkeys(pair["split"] for pair in PAIRS))
PACKAGE = "memory.comparison"
MODULES = ("lexicon", "tokenizer", "canonical", "statements", "snapshot", "differences", "change_score", "compare")
"""In the order in which they import each other."""

FUNCTIONS = {
    "tokenizer": {
        "_dated": "lambda match: match[0]",
        "_timed": "lambda match: match[0]",
        "_unit": "lambda written: written",
        "_TELLING": "frozenset()",
    },
    "canonical": {
        "_fronted": "lambda texts: texts",
        "_WISH": "re.compile('(?!)()()')",
        "_active": "lambda words: words",
        "_listed": "lambda words: words",
    },
    "statements": {
        "_phrase_statements": "lambda *given: ()",
        "_noun_statements": "lambda *given: ()",
        "_is_plain": "lambda statement: bool(statement.key[0] and statement.value)",
        "_numbers_exclude": "lambda one, other: one != other",
        "alike": "lambda olds, news: False",
    },
    "differences": {
        "single_difference": "lambda old, new: ()",
        "only_adds_details": "lambda old, new, names: False",
        "is_more_exact": "lambda old, new: False",
        "is_other_instance": "lambda old, new: False",
        "is_other_object": "lambda old, new: False",
    },
    "snapshot": {"_ENDING": "re.compile('(?!)()')"},
    "change_score": {"_is_doubted": "lambda *given: False"},
    "compare": {"change_scores": "lambda pairs: [-1.0 for _ in pairs]"},
}
"""What is one rule each, with what takes nothing from a text and adds nothing to it."""

WITHOUT_SIGN = "all_signs = change_features\ndef change_features(*given):\n    return all_signs(*given) | {{{!r}: {}}}"
WITHOUT_EMBEDDINGS = "ChangeModel.pair_features = lambda *given: (UNKNOWN,) * len(EMBEDDING_FEATURES)"
_VARIED_WORDS = "not never no now only the a always about has been was will to in from of by and or if May Bob 2 's , ?"
_VARIATIONS = 2
"""Of each sentence."""


def main() -> int:
    os.environ.setdefault("DATABASE_URL", "postgresql:///unused?host=/nonexistent")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    import django

    django.setup()
    _cross_scores_keep()
    vectors, variations = _vectors(), _variations()
    whole = _decisions({}, vectors, variations)
    print(f"| rule | {' | '.join(SPLITS)} | reasons | variations |\n|---" + "|---" * (len(SPLITS) + 2) + "|")
    for name, change in _rules():
        without = _decisions(change, vectors, variations)
        counts = [
            sum(
                one[0] != other[0] and pair["split"] == split
                for one, other, pair in zip(whole[0], without[0], PAIRS, strict=True)
            )
            for split in SPLITS
        ]
        reasons = sum(one != other for one, other in zip(whole[0], without[0], strict=True))
        varied = sum(one != other for one, other in zip(whole[1], without[1], strict=True))
        print(f"| {name} | " + " | ".join(str(count or "") for count in (*counts, reasons, varied)) + " |", flush=True)
    return 0


def _cross_scores_keep() -> None:
    """Let the cross-encoder read each pair once: no rule changes what it says of two sentences."""
    from memory.comparison import cross_encoder

    known: dict[tuple[str, ...], float] = {}
    read = cross_encoder.cross_scores

    def kept(pairs: Sequence[tuple[Any, Any]]) -> list[float]:
        named = [tuple(map(cross_encoder.sentence_of, pair)) for pair in pairs]
        missing = {name: pair for name, pair in zip(named, pairs, strict=True) if name not in known}
        known.update(zip(missing, read(list(missing.values())), strict=True))
        return [known[name] for name in named]

    cross_encoder.cross_scores = kept


def _rules() -> Iterator[tuple[str, dict[str, str]]]:
    """Name of each rule, with the source that takes it away, by module."""
    for name, value in vars(_rebuilt({})["lexicon"]).items():
        if name == "MONTHS":
            yield name, {"lexicon": 'MONTHS = {"-": ""}'}  # a pattern is made of its words, so it cannot be empty
        elif name == "PRIVATIVES":
            yield name, {"lexicon": "RESTRICTIONS -= PRIVATIVES - NEGATIONS - QUANTIFIERS - MODALS - CLAUSE_WORDS"}
        elif name.isupper() and not name.startswith("_") and name != "ANTONYMS":  # of which OPPOSITES is made
            yield name, {"lexicon": f"{name} = type({name})()"}
        if name == "ATTRIBUTE_PHRASES":
            for phrase in value:
                yield f"{phrase} ({value[phrase]})", {"lexicon": f"del {name}[{phrase!r}]"}
    score = vars(_rebuilt({})["change_score"])
    for sign in score["change_model"]().names:
        nothing = score["UNKNOWN"] if sign in score["EMBEDDING_FEATURES"] else 0.0
        yield f"{sign} (sign)", {"change_score": WITHOUT_SIGN.format(sign, nothing)}
    yield "embeddings", {"change_score": WITHOUT_EMBEDDINGS}
    for module, functions in FUNCTIONS.items():
        for function, nothing in functions.items():
            yield function, {module: f"{function} = {nothing}"}


def _rebuilt(change: dict[str, str]) -> dict[str, ModuleType]:
    """The modules of the comparison, built again with `change` at the end of their source; the real ones stay."""
    package = sys.modules.get(PACKAGE) or __import__(PACKAGE, fromlist=["compare"])
    names = [f"{PACKAGE}.{module}" for module in MODULES]
    kept = {name: sys.modules.get(name) for name in names}
    built = {}
    try:
        for module, name in zip(MODULES, names, strict=True):
            source = Path(package.__path__[0], f"{module}.py").read_text() + "\n" + change.get(module, "")
            built[module] = sys.modules[name] = ModuleType(name)
            built[module].__file__ = str(Path(package.__path__[0], f"{module}.py"))
            setattr(package, module, built[module])
            exec(compile(source, name, "exec"), vars(built[module]))  # noqa: S102 - our own source
    finally:
        for name, real in kept.items():
            sys.modules.pop(name)
            if real is not None:
                sys.modules[name] = real
                setattr(package, name.rpartition(".")[2], real)
    return built


def _decisions(
    change: dict[str, str], vectors: Any, variations: list[tuple[str, str]]
) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Outcome and reasons of each pair; of each variation, what becomes of it by itself."""
    from memory.embedding.thresholds import DEFAULT_MODEL, thresholds_of

    modules, thresholds = _rebuilt(change), thresholds_of(DEFAULT_MODEL)
    compare, snapshot = modules["compare"].compare_facts, modules["snapshot"].FactSnapshot
    learned = datetime(2026, 1, 1, tzinfo=UTC)

    def compared(old: str, new: str, cosine: float, subject: str = "", known: Any = (None, None)) -> Any:
        one = snapshot(old, subject, moment=learned, vector=known[0])
        other = snapshot(new, subject, moment=learned + timedelta(days=1), vector=known[1])
        return compare(one, other, cosine, thresholds)

    pairs = []
    for place, pair in enumerate(PAIRS):
        known = vectors[2 * place], vectors[2 * place + 1]
        found = compared(pair["old"], pair["new"], float(known[0] @ known[1]), pair.get("subject", ""), known)
        pairs.append((str(found.outcome), sorted(each.code for each in found.reasons)))
    varied = [str(compared(old, new, 0.9).kind) for old, new in variations]
    return pairs, [kind if kind in ("same", "changed") else "" for kind in varied]


def _vectors() -> Any:
    from memory.embedding.registry import embedder_named
    from memory.embedding.thresholds import DEFAULT_MODEL

    texts = [text for pair in PAIRS for text in (pair["old"], pair["new"])]
    return embedder_named(DEFAULT_MODEL).embed_documents(texts)


def _variations() -> list[tuple[str, str]]:
    choose = random.Random(11)
    sentences = sorted({pair[side] for pair in PAIRS for side in ("old", "new")})
    found = []
    for sentence in sentences:
        for _ in range(_VARIATIONS):
            words = sentence.split()
            place, other = choose.randrange(len(words)), choose.randrange(len(words))
            match choose.randrange(4):
                case 0:
                    words.insert(place, choose.choice(_VARIED_WORDS.split()))
                case 1:
                    del words[place]
                case 2:
                    words[place], words[other] = words[other], words[place]
                case 3:
                    words[place] = choose.choice(choose.choice(sentences).split())
            found.append((sentence, " ".join(words)))
    return found


if __name__ == "__main__":
    sys.exit(main())
