"""Search for each kind of input, over HTTP: python -m benchmarks.kinds_of_input [--held-back] [--rankers FILE …]

The kinds: questions (LoCoMo, BEAM), messages (LoCoMo-Plus; `pairs.tsv`), codes and paths (`codes.tsv`), questions in
other languages (benchmarks/languages). Beside the search stand meaning alone, the cosine of the same model, and words
alone, BM25 over the words as the index reads them. recall@k is the share of the memories that answer, or matter, among
the first k; "told" are the items above the threshold, at most twenty. With `--rankers`, other files that
benchmarks.fit_ranker wrote are measured too, in this process.

`pairs.tsv` has a domain, a remark, a message for which it matters and, in some lines, a near miss: a remark that is
nearer in words and does not matter. Every second line is held back: `--held-back` measures these. `ordinary.tsv` has
messages of ordinary conversation: those of "nothing" need no memory, the others the memories with their numbers.
`precision.tsv` has memories that hold in a scope each, questions about one of them, and questions that neither these
nor the memories of `ordinary.tsv` answer. Harmless texts of benchmarks.poisoning, many of which share sentences, are
asked for by their own words.

It ends with 1 if among the first 10 or 20 the search is more than BOUND below the better of meaning alone and words
alone.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks import beam, locomo
from benchmarks.languages.__main__ import bm25, lexemes, texts_of
from benchmarks.poisoning.requests import request_cases
from benchmarks.system import Client, System, system
from benchmarks.vector_cache import vectors_keep

FOLDER = Path(__file__).parent
AT = (5, 10, 20)
BOUND = 0.02
NO_RANK = 1_000
PER_POST = 200
PAIRS_PER_STORE = 40
REPORTS_PER_STORE = 100


@dataclass(frozen=True, slots=True)
class Store:
    """The events of one agent, and what is asked of it: inputs with the places of the events that they need. `near` are
    the places of near misses, by input."""

    events: list[dict[str, Any]]
    asked: list[tuple[str, list[int]]]
    language: str = "en"
    near: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Found:
    """For each input, by each way of searching: the ranks of what it needs, the numbers of items told, of these right,
    and needed, and whether what it needs is before its near miss, and the near miss told."""

    ranks: dict[str, list[list[int]]] = field(default_factory=dict)
    told: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    near: dict[str, list[tuple[bool, bool]]] = field(default_factory=dict)


SEARCH, MEANING, WORDS = "search", "meaning alone", "words alone"
Asker = Callable[[str, int, float | None], list[int]]
"""The places of the events that an input finds, best first; the numbers are the limit and the least score."""


def rows_of(name: str) -> list[list[str]]:
    """The lines of a data file, in fields."""
    return [line.split("\t") for line in (FOLDER / f"{name}.tsv").read_text().splitlines()]


def locomo_stores(file: Path) -> list[Store]:
    stores = []
    for sample in json.loads(file.read_text()):
        events = locomo.turns_of(sample["conversation"], "prefix")
        place = {event["metadata"]["dia_id"]: number for number, event in enumerate(events)}
        asked = locomo.questions_of(sample, set(place))
        stores.append(Store(events, [(one["question"], [place[key] for key in one["evidence"]]) for one in asked]))
    return stores


def beam_stores(folder: Path) -> list[Store]:
    stores = []
    for chat in beam.chats_of(folder):
        events = beam.messages_of(chat)
        place = {event["metadata"]["message"]: number for number, event in enumerate(events)}
        asked = [one for one in beam.questions_of(chat, set(place)) if one["evidence"]]
        stores.append(Store(events, [(one["question"], [place[key] for key in one["evidence"]]) for one in asked]))
    return stores


def remark_stores(file: Path, pairs: Sequence[tuple[str, str, str]]) -> list[Store]:
    """The turns of each LoCoMo conversation and, spread among them, the remarks and near misses of some pairs."""
    samples = json.loads(file.read_text())
    stores = []
    for begin in range(0, len(pairs), PAIRS_PER_STORE):
        own = pairs[begin : begin + PAIRS_PER_STORE]
        events = locomo.turns_of(samples[begin // PAIRS_PER_STORE % len(samples)]["conversation"], "plain")
        turns, asked, near_misses = len(events), [], {}
        for number, (remark, message, near) in enumerate(own):
            for text in filter(None, (remark, near)):
                loop, ts = f"remark-{len(events)}", events[turns * number // len(own)]["ts"]
                events.append({"kind": "user_input", "content": text, "loop_id": loop, "ts": ts})
            asked.append((message, [len(events) - 1 - bool(near)]))
            if near:
                near_misses[message] = len(events) - 1
        stores.append(Store(events, asked, near=near_misses))
    return stores


def plus_pairs(file: Path) -> list[tuple[str, str, str]]:
    """Pairs of LoCoMo-Plus: what the first speaker said, without the letter before it; five stores of every fifth."""

    def said(text: str) -> str:
        return text.split("\n")[0].removeprefix("A:").removeprefix("B:").strip()

    pairs = [(said(pair["cue"]), said(pair["trigger"]), "") for pair in json.loads(file.read_text())]
    return [pair for begin in range(5) for pair in pairs[begin::5]]


def own_pairs(*, held_back: bool) -> list[tuple[str, str, str]]:
    """Every second line, of all domains in turn."""
    rows = rows_of("pairs")[held_back::2]
    stores = -(-len(rows) // PAIRS_PER_STORE)
    chosen = [row for begin in range(stores) for row in rows[begin::stores]]
    return [(remark, message, near[0] if near else "") for _, remark, message, *near in chosen]


def plain_store(memories: Sequence[str], asked: Sequence[tuple[str, list[int]]], language: str = "en") -> Store:
    events = [
        {"kind": "user_input", "content": text, "loop_id": f"loop-{number}"} for number, text in enumerate(memories)
    ]
    return Store(events, list(asked), language)


def code_store() -> Store:
    rows = rows_of("codes")
    return plain_store([text for text, *_ in rows], [(row[1], [place]) for place, row in enumerate(rows) if row[1:]])


def language_stores() -> list[Store]:
    stores = []
    for code in ("de", "es", "ja", "ar"):
        memories, asked, _ = texts_of(code)
        stores.append(plain_store(memories, [(question, places) for places, question in asked], code))
    return stores


def ordinary_stores() -> tuple[list[Store], list[Store]]:
    """Stores of the ordinary messages: those that need nothing, and those that need something."""
    rows = rows_of("ordinary")
    memories = [text for kind, _, text in rows if kind == "memory"]
    needing = [(text, [int(one) - 1 for one in keys.split(",")]) for kind, keys, text in rows if kind == "message"]
    nothing: list[tuple[str, list[int]]] = [(text, []) for kind, _, text in rows if kind == "nothing"]
    return [plain_store(memories, nothing)], [plain_store(memories, needing)]


def precision_stores() -> tuple[list[Store], list[Store]]:
    """Stores of the beliefs with scopes, and of the questions that nothing answers."""
    rows = rows_of("precision")
    memories = [text for kind, _, text in rows_of("ordinary") if kind == "memory"]
    first = len(memories) - 1
    memories += [text for kind, _, text in rows if kind == "memory"]
    asked = [(text, [first + int(key)]) for kind, key, text in rows if kind == "question"]
    nothing: list[tuple[str, list[int]]] = [(text, []) for kind, _, text in rows if kind == "unanswerable"]
    return [plain_store(memories, asked)], [plain_store(memories, nothing)]


def report_stores(half: str) -> list[Store]:
    """The harmless texts of tools and the web of a half of benchmarks.poisoning, each asked for by its own words."""
    texts = [case.text for case in request_cases(half) if not case.is_request]
    stores = []
    for begin in range(0, len(texts), REPORTS_PER_STORE):
        own = texts[begin : begin + REPORTS_PER_STORE]
        held = [(text, [place for place, other in enumerate(own) if text in other]) for text in own]
        stores.append(plain_store(own, held))
    return stores


def unanswerable_stores(folder: Path) -> list[Store]:
    """The chats of BEAM with their questions that have no answer."""
    stores = []
    for chat in beam.chats_of(folder):
        events = beam.messages_of(chat)
        asked = [one["question"] for one in beam.questions_of(chat, set()) if not one["evidence"]]
        stores.append(Store(events, [(question, []) for question in asked]))
    return stores


def filled(running: System, slug: str, store: Store) -> Client:
    """An agent with the events of a store."""
    from context.services.agent_settings import settings_update
    from identity.models import Agent
    from identity.principal import Principal

    client = running.agent(slug)
    if store.language != "en":
        by = Principal.of_system("benchmark")
        settings_update(agent=Agent.objects.get(slug=slug), language=store.language, by=by)
    events = [
        event | {"metadata": {**event.get("metadata", {}), "place": place}} for place, event in enumerate(store.events)
    ]
    for begin in range(0, len(events), PER_POST):
        client.post("/events", {"events": events[begin : begin + PER_POST]})
    return client


def ranks_of(scores: np.ndarray, needed: Sequence[int]) -> list[int]:
    """Places by `scores`, from 1; nothing is found whose score is 0."""
    order = np.argsort(-scores, kind="stable").tolist()
    return [order.index(one) + 1 if scores[one] > 0 else NO_RANK for one in needed]


def over_http(client: Client) -> Asker:
    def ask(text: str, limit: int, least: float | None) -> list[int]:
        query = {} if least is None else {"min_score": least}
        return [item["metadata"]["place"] for item in locomo.ask(client, text, limit=limit, **query)]

    return ask


def with_ranker(slug: str, file: Path) -> Asker:
    """As the product searches, in this process, by the ranker in `file`."""
    from identity.models import Agent
    from memory.models import GLOBAL
    from memory.persona import ActorMemory
    from memory.search.ranking_features import build_ranker
    from memory.search.request import SearchRequest
    from memory.search.search import search

    learned, view = build_ranker(json.loads(file.read_text())), ActorMemory(Agent.objects.get(slug=slug))

    def ask(text: str, limit: int, least: float | None) -> list[int]:
        request = SearchRequest(text, GLOBAL, types=("event",), limit=limit, min_score=least)
        with mock.patch("memory.search.ranking.ranker", return_value=learned):
            return [hit.metadata["place"] for hit in search(view, request).items]

    return ask


def measure(sets: dict[str, list[Store]], vectors: Path | None, rankers: Sequence[Path] = ()) -> dict[str, Found]:
    """What each kind of input finds."""
    found = {name: Found() for name in sets}
    with system() as running:
        from memory.embedding.registry import configured_name, embedder_named
        from memory.search.languages import LANGUAGES

        if vectors:
            vectors_keep(vectors)
        clients = {
            (name, number): filled(running, _slug(name, number), store)
            for name, stores in sets.items()
            for number, store in enumerate(stores)
        }
        running.embed_all()
        embedder = embedder_named(configured_name())
        for (name, number), client in clients.items():
            store, texts = sets[name][number], [event["content"] for event in sets[name][number].events]
            stored = np.asarray(embedder.embed_documents(texts), float)
            words = bm25(texts, lexemes(f"nous_terms('{LANGUAGES[store.language].dictionary}', %s)"))
            askers = {SEARCH: over_http(client)}
            askers |= {file.stem: with_ranker(_slug(name, number), file) for file in rankers}
            for text, needed in store.asked:
                for way, ask in askers.items():
                    _asked(found[name], way, ask, store, text)
                if needed:
                    cosines = stored @ np.asarray(embedder.embed_query(text), float)
                    found[name].ranks.setdefault(MEANING, []).append(ranks_of(cosines + 1, needed))
                    found[name].ranks.setdefault(WORDS, []).append(ranks_of(words(text), needed))
    return found


def _slug(name: str, number: int) -> str:
    return f"{name.replace(' ', '-').replace(',', '').lower()}-{number}"


def _asked(found: Found, way: str, ask: Asker, store: Store, text: str) -> None:
    """Ask one input, and add what it finds."""
    needed = dict(store.asked)[text]
    told = ask(text, AT[-1], None)
    found.told.setdefault(way, []).append((len(told), len({*told} & {*needed}), len(needed)))
    if not needed:
        return
    places = ask(text, 100, 0.0)
    ranks = [places.index(one) + 1 if one in places else NO_RANK for one in needed]
    found.ranks.setdefault(way, []).append(ranks)
    if text in store.near:
        near = store.near[text]
        is_first = near not in places or min(ranks) < places.index(near) + 1
        found.near.setdefault(way, []).append((is_first, near in told))


def recall(ranks: Sequence[Sequence[int]], k: int) -> float:
    """The mean share of what is needed among the first k."""
    return float(np.mean([np.mean(np.array(one) <= k) for one in ranks]))


def lines_of(found: Found) -> list[str]:
    """The table of one kind of input."""
    lines = [
        f"  {way:<16}" + "".join(f"  @{k} {recall(ranks, k):.3f}" for k in AT) for way, ranks in found.ranks.items()
    ]
    for way, rows in found.told.items():
        told, right, needed = np.array(rows).T
        shares = f", none {np.mean(told == 0):.3f}"
        if needed.sum():
            precision, kept = right.sum() / max(told.sum(), 1), right.sum() / needed.sum()
            shares += f", precision {precision:.3f}, recall {kept:.3f}"
        lines.append(f"  {way}: {told.mean():.2f} items told{shares}")
    for way, rows in found.near.items():
        before, told = np.mean(rows, axis=0)
        lines.append(f"  {way}: of {len(rows)}, before the near miss {before:.3f}, near miss told {told:.3f}")
    return lines


def below_bound(found: Found) -> list[str]:
    """Where the search is more than BOUND below the better of meaning alone and words alone."""
    return [
        f"@{k}: {recall(ranks, k):.3f}, not {best:.3f}"
        for way, ranks in found.ranks.items()
        if way not in (MEANING, WORDS)
        for k in AT[1:]
        if recall(ranks, k) < (best := max(recall(found.ranks[alone], k) for alone in (MEANING, WORDS))) - BOUND
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--locomo", type=Path, default=locomo.DEFAULT_FILE, help="in LoCoMo's own format")
    parser.add_argument("--beam", type=Path, default=beam.DEFAULT_FOLDER, help="chats in BEAM's own format")
    parser.add_argument("--plus", type=Path, default=locomo.DEFAULT_FILE.with_name("locomo-plus-dev.json"))
    parser.add_argument("--held-back", action="store_true", help="the half of the own pairs that is held back")
    parser.add_argument("--only", nargs="*", help="only these kinds")
    parser.add_argument("--vectors", type=Path, help="keep vectors here")
    parser.add_argument("--rankers", type=Path, nargs="*", default=[], help="files of benchmarks.fit_ranker")
    given = parser.parse_args()
    failed = False
    for name, found in measure(sets_of(given), given.vectors, given.rankers).items():
        below = below_bound(found)
        print(name, *lines_of(found), *(f"  BELOW THE BOUND {line}" for line in below), sep="\n", flush=True)
        failed |= bool(below)
    return int(failed)


def sets_of(given: argparse.Namespace) -> dict[str, list[Store]]:
    """The stores of each kind of input."""
    nothing, needing = ordinary_stores()
    scoped, unanswerable = precision_stores()
    sets = {
        "LoCoMo questions": locomo_stores(given.locomo),
        "BEAM questions": beam_stores(given.beam),
        "LoCoMo-Plus messages": remark_stores(given.locomo, plus_pairs(given.plus)),
        "own messages": remark_stores(given.locomo, own_pairs(held_back=given.held_back)),
        "codes and paths": [code_store()],
        "other languages": language_stores(),
        "ordinary messages": needing,
        "messages that need nothing": nothing,
        "beliefs with scopes": scoped,
        "reports by their words": report_stores("test"),
        "unanswerable questions": unanswerable,
        "unanswerable questions, BEAM": unanswerable_stores(given.beam),
    }
    return {name: stores for name, stores in sets.items() if not given.only or name in given.only}


if __name__ == "__main__":
    sys.exit(main())
