"""Retrieval in five languages: python -m benchmarks.languages

The same 40 memories, 25 questions about them and 10 about nothing in them, in English, German, Spanish, Japanese and
Arabic (`*.tsv`: kind, numbers of the memories that answer, text). Compared are words alone (BM25 over the words as
PostgreSQL reads them: with the English dictionary, and as the index does), vectors alone, and the whole search over
HTTP: with the English dictionary and with that of the language, with the default and with the multilingual embedder.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.system import PROJECT, RESULTS, Client, System, system, tied

FOLDER = Path(__file__).parent
LANGUAGES = {"en": "English", "de": "German", "es": "Spanish", "ja": "Japanese", "ar": "Arabic"}
EMBEDDERS = {"local": "MiniLM", "multilingual": "multilingual E5"}
K1, B = 1.2, 0.4
Ranks = list[int | None]


def texts_of(code: str) -> tuple[list[str], list[tuple[list[int], str]], list[str]]:
    """Memories, questions with the places of the memories that answer them, and questions about nothing in them."""
    rows = [line.split("\t") for line in (FOLDER / f"{code}.tsv").read_text().splitlines()]
    memories = [text for kind, _, text in rows if kind == "memory"]
    asked = [([int(one) - 1 for one in found.split(",")], text) for kind, found, text in rows if kind == "question"]
    return memories, asked, [text for kind, _, text in rows if kind == "unrelated"]


def summary(ranks: Sequence[Ranks]) -> dict[str, float]:
    """Shares of the evidence among the first one and five, and the mean reciprocal rank of the first of it."""
    first = [min((rank for rank in found if rank), default=None) for found in ranks]
    return {
        "hit@1": statistics.fmean(rank == 1 for rank in first),
        "recall@5": statistics.fmean(sum(bool(rank and rank <= 5) for rank in found) / len(found) for found in ranks),
        "mrr": statistics.fmean(1 / rank if rank else 0.0 for rank in first),
    }


def ranks_by(scores: np.ndarray, answers: Sequence[int]) -> Ranks:
    """Places of the answers, from 1; nothing counts as found whose score is 0."""
    order = np.argsort(-scores, kind="stable").tolist()
    return [order.index(one) + 1 if scores[one] > 0 else None for one in answers]


def bm25(texts: Sequence[str], read: Callable[[str], list[str]]) -> Callable[[str], np.ndarray]:
    """The BM25 scores of `texts` for a query, over the words that `read` gives of a text."""
    held = [Counter(read(text)) for text in texts]
    mean = statistics.fmean(words.total() for words in held)
    df = Counter(word for words in held for word in words)
    idf = {word: math.log(1 + (len(held) - n + 0.5) / (n + 0.5)) for word, n in df.items()}

    def scores(query: str) -> np.ndarray:
        wanted = set(read(query)) & idf.keys()
        return np.array([
            sum(
                idf[word] * words[word] * (K1 + 1) / (words[word] + K1 * (1 - B + B * words.total() / mean))
                for word in wanted
                if word in words
            )
            for words in held
        ])  # fmt: skip

    return scores


def by_words(code: str, read: Callable[[str], list[str]]) -> dict[str, float]:
    """Summary of words alone."""
    memories, asked, _ = texts_of(code)
    scores = bm25(memories, read)
    return summary([ranks_by(scores(question), answers) for answers, question in asked])


def by_vectors(code: str, embedder: Any) -> dict[str, float]:
    memories, asked, unrelated = texts_of(code)
    vectors = embedder.embed_documents(memories)
    cosines = [vectors @ embedder.embed_query(question) for _, question in asked]
    nothing = [float((vectors @ embedder.embed_query(question)).max()) for question in unrelated]
    found = summary([ranks_by(one + 1, answers) for one, (answers, _) in zip(cosines, asked, strict=True)])
    best = [float(one.max()) for one in cosines]
    return {**found, "best_related": statistics.median(best), "best_unrelated": statistics.median(nothing)}


def by_search(client: Client, code: str) -> dict[str, float]:
    """The whole search: ranks, what is above the threshold, and what questions about nothing in memory bring up."""
    memories, asked, unrelated = texts_of(code)
    ranks, kept, returned = [], [], []
    for answers, question in asked:
        ranked = [one["content"] for one in client.get("/recall", q=question, limit=40, min_score=0)["items"]]
        shown = [one["content"] for one in client.get("/recall", q=question, limit=10)["items"]]
        ranks.append([ranked.index(memories[one]) + 1 if memories[one] in ranked else None for one in answers])
        kept.append(sum(memories[one] in shown for one in answers) / len(answers))
        returned.append(len(shown))
    false = [bool(client.get("/recall", q=question, limit=10)["items"]) for question in unrelated]
    return {
        **summary(ranks),
        "kept": statistics.fmean(kept),
        "returned": statistics.fmean(returned),
        "false_contexts": statistics.fmean(false),
    }


def lexemes(read: str) -> Callable[[str], list[str]]:
    """A reader of words by an expression of PostgreSQL over %s."""
    from django.db import connection

    def words(text: str) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT lexeme FROM unnest({read}) AS word, generate_series(1, cardinality(word.positions))",  # noqa: S608
                [text],
            )
            return [row[0] for row in cursor.fetchall()]

    return words


def filled(running: System, code: str, slug: str, language: str) -> Client:
    """An agent with the memories of a language, whose words are read by `language`; "" lets it be detected."""
    from context.services.agent_settings import settings_update
    from identity.models import Agent
    from identity.principal import Principal

    client = running.agent(slug)
    if language:
        by = Principal.of_system("benchmark")
        settings_update(agent=Agent.objects.get(slug=slug), language=language, by=by)
    events = [
        {"kind": "user_input", "content": text, "loop_id": f"loop-{number}"}
        for number, text in enumerate(texts_of(code)[0])
    ]
    client.post("/events", {"events": events})
    return client


def measured(embedder: str) -> dict[str, Any]:
    """All languages with one embedder, on a system of its own."""
    os.environ["NOUS_EMBEDDER"] = embedder
    found: dict[str, Any] = {}
    with system() as running:
        from memory.embedding.registry import configured_name, embedder_named
        from memory.search.languages import LANGUAGES as KNOWN
        from memory.services.search_index.reembedding import languages_detect, words_reread

        clients = {
            (code, kind): filled(running, code, f"{code}-{kind}", language)
            for code in LANGUAGES
            for kind, language in (("english", "en"), ("own", ""))
        }
        running.embed_all()
        languages_detect()
        words_reread()
        for code in LANGUAGES:
            detected = clients[code, "own"].get("/index")["language"]
            if detected != code:
                sys.stderr.write(f"{LANGUAGES[code]} was taken for {detected}\n")
            found[code] = {
                "detected": detected,
                "words, English dictionary": by_words(code, lexemes("to_tsvector('english', %s)")),
                "words": by_words(code, lexemes(f"nous_terms('{KNOWN[code].dictionary}', %s)")),
                f"vectors, {EMBEDDERS[embedder]}": by_vectors(code, embedder_named(configured_name())),
                f"search, {EMBEDDERS[embedder]}, English dictionary": by_search(clients[code, "english"], code),
                f"search, {EMBEDDERS[embedder]}": by_search(clients[code, "own"], code),
            }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--one", choices=[*EMBEDDERS], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one)))
        return 0
    RESULTS.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {code: {} for code in LANGUAGES}
    for embedder in EMBEDDERS:
        # Each in a process of its own: the index is of one model.
        command = tied(sys.executable, "-m", "benchmarks.languages", "--one", embedder)
        finished = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
        if finished.returncode:
            sys.stderr.write(f"SKIPPED {EMBEDDERS[embedder]}: it could not be measured.\n")
            continue
        for code, rows in json.loads(finished.stdout.strip().splitlines()[-1]).items():
            found[code] |= rows
    (RESULTS / "languages.json").write_text(json.dumps(found, indent=1, ensure_ascii=False))
    print(json.dumps(found, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
