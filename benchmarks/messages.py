"""Recall of remarks that matter to a message, over HTTP: python -m benchmarks.messages [LOCOMO] [PAIRS]

Each store has the turns of one LoCoMo conversation and the remarks ("cues") of forty pairs of LoCoMo-Plus, among them;
each message of these pairs is asked through GET /api/recall. Beside the ranker stands the cosine of the same model
alone. A message shares hardly a word with its remark. No language model takes part.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.locomo import DEFAULT_FILE, ask, turns_of
from benchmarks.system import system
from benchmarks.vector_cache import vectors_keep

AT = (5, 10, 20)


def first_line(text: str) -> str:
    """What the first speaker said, without the letter before it."""
    return re.sub(r"^[AB]:\s*", "", text.split("\n")[0])


def ranks_of(samples: list[dict[str, Any]], pairs: list[dict[str, Any]], vectors: Path | None) -> dict[str, list[int]]:
    """The rank of each remark, by the product and by the cosine alone; 1,000 where it was not found."""
    from memory.embedding.registry import configured_name, embedder_named

    found: dict[str, list[int]] = {"ranker": [], "meaning alone": [], "above the threshold": []}
    with system() as running:
        if vectors:
            vectors_keep(vectors)
        stores = []
        for number, sample in enumerate(samples):
            client = running.agent(sample["sample_id"])
            own = pairs[number :: len(samples)]
            turns = turns_of(sample["conversation"], "plain")
            remarks = [
                {"kind": "user_input", "content": first_line(pair["cue"]), "metadata": {"pair": pair["id"]},
                 "loop_id": f"remark_{pair['id']}", "ts": turns[len(turns) * place // len(own)]["ts"]}
                for place, pair in enumerate(own)
            ]  # fmt: skip
            events = turns + remarks
            for begin in range(0, len(events), 500):
                client.post("/events", {"events": events[begin : begin + 500]})
            stores.append((client, own, [event["content"] for event in events], len(turns)))
        running.embed_all()
        embedder = embedder_named(configured_name())
        for client, own, texts, begin in stores:
            stored = np.asarray(embedder.embed_documents(texts), float)
            for place, pair in enumerate(own):
                message = first_line(pair["trigger"])
                for name, more in (("ranker", {"min_score": 0}), ("above the threshold", {})):
                    items = ask(client, message, limit=100, **more)
                    held = [item["metadata"].get("pair") for item in items]
                    found[name].append(held.index(pair["id"]) + 1 if pair["id"] in held else 1_000)
                cosines = stored @ np.asarray(embedder.embed_query(message), float)
                found["meaning alone"].append(int((cosines > cosines[begin + place]).sum()) + 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("locomo", nargs="?", type=Path, default=DEFAULT_FILE)
    parser.add_argument("pairs", nargs="?", type=Path, default=DEFAULT_FILE.with_name("locomo-plus-dev.json"))
    parser.add_argument("--vectors", type=Path, help="keep vectors here")
    given = parser.parse_args()
    ranks = ranks_of(json.loads(given.locomo.read_text()), json.loads(given.pairs.read_text()), given.vectors)
    for name, values in ranks.items():
        print(f"{name:<20}", *(f"@{k} {np.mean(np.array(values) <= k):.3f}" for k in AT))


if __name__ == "__main__":
    main()
