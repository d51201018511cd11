"""Evidence recall on LoCoMo, over HTTP: python -m benchmarks.locomo [FILE]

Every turn of a conversation is posted as an event of an agent of its own; every question of categories 1 to 4 with
evidence is asked through GET /api/recall. No language model takes part.

- recall@k: share of a question's evidence turns among the first k items, averaged over questions.
- kept@10: the same, when only items above the default threshold count.
- precision@10: share of evidence among the first ten above the threshold, averaged over the questions that get any.
- MRR: of the first evidence turn.
- false-context rate: share of questions that get anything above the default threshold from the memory of another
  conversation's agent; every question is asked of every other agent.
"""

import argparse
import json
import re
import statistics
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.system import PROJECT, RESULTS, Client, system
from benchmarks.vector_cache import vectors_keep

DEFAULT_FILE = PROJECT.parent / "shared" / "data" / "locomo-dev.json"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop"}
PRECISE = 10
VARIANTS = {
    "prefix": "Speaker: text [caption]; speaker in the metadata",
    "text": "Speaker: text [caption]; nothing in the metadata but dia_id",
    "plain": "text [caption]; speaker in the metadata",
    "bare": "text [caption]; speaker nowhere",
    "alone": "as prefix, without loop_id",
}


def turns_of(conversation: dict[str, Any], variant: str) -> list[dict[str, Any]]:
    """Events of one conversation in order, a minute apart within a session."""
    events = []
    for number in sorted(int(key.split("_")[1]) for key in conversation if re.fullmatch(r"session_\d+", key)):
        said = f"{conversation[f'session_{number}_date_time']} +0000"
        started = datetime.strptime(said, "%I:%M %p on %d %B, %Y %z")
        for place, turn in enumerate(conversation[f"session_{number}"]):
            text = turn["text"] + (f" [{turn['blip_caption']}]" if turn.get("blip_caption") else "")
            metadata = {"dia_id": turn["dia_id"]}
            if variant in ("prefix", "plain", "alone"):
                metadata["speaker"] = turn["speaker"]
            if variant in ("prefix", "text", "alone"):
                text = f"{turn['speaker']}: {text}"
            event = {
                "kind": "user_input",
                "content": text,
                "ts": (started + timedelta(minutes=place)).isoformat(),
                "metadata": metadata,
            }
            events.append(event if variant == "alone" else event | {"loop_id": f"session_{number}"})
    return events


def questions_of(sample: dict[str, Any], turns: set[str]) -> list[dict[str, Any]]:
    """Questions of categories 1 to 4 whose evidence is among the turns."""
    found = []
    for place, asked in enumerate(sample["qa"]):
        ids = [one for text in asked.get("evidence", []) for one in re.findall(r"D\d+:\d+", text)]
        evidence = [one for one in dict.fromkeys(ids) if one in turns]
        if asked["category"] in CATEGORIES and evidence:
            found.append(
                {
                    "id": f"{sample['sample_id']}/{place}",
                    "question": asked["question"],
                    "category": asked["category"],
                    "evidence": evidence,
                }
            )
    return found


def ask(client: Client, question: str, **query: Any) -> list[dict[str, Any]]:
    return client.get("/recall", q=question, type="event", **query)["items"]


def measure(
    samples: list[dict[str, Any]], variant: str, *, cross: bool, vectors: Path | None = None
) -> list[dict[str, Any]]:
    """One record for each question."""
    records: list[dict[str, Any]] = []
    with system() as running:
        if vectors:
            vectors_keep(vectors)
        agents: dict[str, Client] = {}
        asked: dict[str, list[dict[str, Any]]] = {}
        for sample in samples:
            name = sample["sample_id"]
            agents[name] = running.agent(name)
            events = turns_of(sample["conversation"], variant)
            for begin in range(0, len(events), 500):
                agents[name].post("/events", {"events": events[begin : begin + 500]})
            asked[name] = questions_of(sample, {event["metadata"]["dia_id"] for event in events})
        running.embed_all()
        for name, client in agents.items():
            state = client.get("/index")
            if state["pending"] or state["failed"]:
                raise RuntimeError(f"The index of {name} is not ready: {state}")
        for name, questions in asked.items():
            for question in questions:
                began = time.perf_counter()
                ranked = ask(agents[name], question["question"], limit=100, min_score=0)
                seconds = time.perf_counter() - began
                kept = ask(agents[name], question["question"], limit=100)
                places = [item["metadata"]["dia_id"] for item in ranked]
                kept_ids = [item["metadata"]["dia_id"] for item in kept]
                first = kept_ids[:PRECISE]
                others = [other for other in agents if other != name] if cross else []
                records.append(
                    question
                    | {
                        "conversation": name,
                        "ranks": [places.index(one) + 1 if one in places else None for one in question["evidence"]],
                        "kept_ranks": [
                            kept_ids.index(one) + 1 if one in kept_ids else None for one in question["evidence"]
                        ],
                        "returned": len(kept),
                        "precision": len(set(first) & set(question["evidence"])) / len(first) if first else None,
                        "top_score": ranked[0]["score"] if ranked else 0.0,
                        "seconds": round(seconds, 5),
                        "false_context": {
                            other: max(
                                (item["score"] for item in ask(agents[other], question["question"], limit=1)),
                                default=0.0,
                            )
                            for other in others
                        },
                    }
                )
    return records


def share(ranks: list[int | None], k: int) -> float:
    return sum(rank is not None and rank <= k for rank in ranks) / len(ranks)


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    false = [score > 0 for record in records for score in record["false_context"].values()]
    precise = [r["precision"] for r in records if r["precision"] is not None]
    return {
        "questions": len(records),
        **{f"recall@{k}": statistics.fmean(share(r["ranks"], k) for r in records) for k in (5, 10, 20)},
        "kept@10": statistics.fmean(share(r["kept_ranks"], 10) for r in records),
        "precision@10": statistics.fmean(precise) if precise else None,
        "mrr": statistics.fmean(
            1 / min(rank for rank in r["ranks"] if rank) if any(r["ranks"]) else 0.0 for r in records
        ),
        "false_context_rate": statistics.fmean(false) if false else None,
        "median_returned": statistics.median(r["returned"] for r in records),
        "median_ms": statistics.median(r["seconds"] for r in records) * 1000,
    }


def table(records: list[dict[str, Any]]) -> str:
    """All, each conversation, each category."""
    groups = {"all": records}
    for name in dict.fromkeys(r["conversation"] for r in records):
        groups[name] = [r for r in records if r["conversation"] == name]
    for number, label in CATEGORIES.items():
        groups[label] = [r for r in records if r["category"] == number]
    columns = (
        "questions",
        "recall@5",
        "recall@10",
        "recall@20",
        "mrr",
        "kept@10",
        "precision@10",
        "false_context_rate",
    )
    lines = [f"{'':14}" + "".join(f"{column:>20}" for column in columns)]
    for label, chosen in groups.items():
        if chosen:
            found = summary(chosen)
            cells = "".join(f"{'-' if found[c] is None else round(found[c], 4):>20}" for c in columns)
            lines.append(f"{label:14}{cells}")
    found = summary(records)
    lines.append(f"median of items above the threshold {found['median_returned']:.0f}; {found['median_ms']:.1f} ms")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=DEFAULT_FILE, help="in LoCoMo's own format")
    parser.add_argument("--variant", choices=VARIANTS, default="prefix")
    parser.add_argument("--no-cross", action="store_true", help="leave out the false-context rate")
    parser.add_argument("--vectors", type=Path, help="a file that keeps vectors for the next time")
    options = parser.parse_args()
    if not options.file.exists():
        sys.stderr.write(
            f"There is no file {options.file}. LoCoMo (snap-research/locomo, CC BY-NC 4.0) is no part of this project: "
            "give the path of a file in its format, make bench LOCOMO=/path/to/locomo10.json\n"
        )
        return 2
    samples = json.loads(options.file.read_text())
    records = measure(samples, options.variant, cross=not options.no_cross, vectors=options.vectors)
    RESULTS.mkdir(parents=True, exist_ok=True)
    target = RESULTS / f"locomo-{options.variant}.json"
    target.write_text(json.dumps({"summary": summary(records), "questions": records}, indent=1))
    print(f"{options.variant}: {VARIANTS[options.variant]}\n{table(records)}\nper question: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
