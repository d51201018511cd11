"""Evidence recall on BEAM, over HTTP: python -m benchmarks.beam [FOLDER]

A chat between a person and an assistant is the memory of an agent of its own: each message an event, what the person
said as user_input and what the assistant said as actor_output, a loop each batch. Every probing question is asked
through GET /api/recall. No language model takes part.

- recall@k: share of a question's evidence messages among the first k items, averaged over questions.
- kept: the same among the items above the default threshold, at most twenty; precision: share of these that are
  evidence, averaged over the questions that get any.
- abstention: questions that the chat has no answer to; how many get anything above the threshold, and how much.
"""

import argparse
import json
import re
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.locomo import share
from benchmarks.system import PROJECT, RESULTS, Client, system
from benchmarks.vector_cache import vectors_keep

DEFAULT_FOLDER = PROJECT.parent / "shared" / "data" / "beam-dev"
KINDS = {"user": "user_input", "assistant": "actor_output"}
ARTEFACT = re.compile(r"\s*->->\s*[\d,]+\s*$")
MAX_CHARACTERS = 200_000
"""What the API takes of one event."""
KEPT = 20
BEGAN = datetime(2024, 1, 1, 9, tzinfo=UTC)


def chats_of(folder: Path) -> list[Path]:
    """The chats of a folder: each has a file chat.json and its questions."""
    found = [path.parent for path in folder.glob("*/chat.json")]
    return sorted(found, key=lambda path: (len(path.name), path.name))


def messages_of(chat: Path, *, loops: bool = True) -> list[dict[str, Any]]:
    """Events of one chat in order, a minute apart."""
    events: list[dict[str, Any]] = []
    for number, batch in enumerate(json.loads((chat / "chat.json").read_text())):
        for message in (message for turn in batch["turns"] for message in turn):
            event = {
                "kind": KINDS[message["role"]],
                "content": ARTEFACT.sub("", message["content"])[:MAX_CHARACTERS],
                "ts": (BEGAN + timedelta(minutes=len(events))).isoformat(),
                "metadata": {"message": message["id"]},
            }
            events.append(event | {"loop_id": f"batch_{number}"} if loops else event)
    return events


def numbers_in(given: Any) -> list[int]:
    """Message ids in any of the forms that the questions have: numbers, lists, dicts."""
    if isinstance(given, int):
        return [given]
    values = list(given.values()) if isinstance(given, dict) else given if isinstance(given, list) else []
    return [number for value in values for number in numbers_in(value)]


def questions_of(chat: Path, messages: set[int]) -> list[dict[str, Any]]:
    """The chat's questions; those of the kind `abstention` have no evidence, others without any are left out."""
    found = []
    asked = json.loads((chat / "probing_questions" / "probing_questions.json").read_text())
    for kind, questions in asked.items():
        for place, question in enumerate(questions):
            evidence = [one for one in dict.fromkeys(numbers_in(question.get("source_chat_ids"))) if one in messages]
            if evidence or kind == "abstention":
                found.append(
                    {
                        "id": f"{chat.name}/{kind}/{place}",
                        "question": question["question"],
                        "kind": kind,
                        "evidence": evidence,
                    }
                )
    return found


def measure(chats: list[Path], *, loops: bool, vectors: Path | None = None) -> list[dict[str, Any]]:
    """One record for each question."""
    records: list[dict[str, Any]] = []
    with system() as running:
        if vectors:
            vectors_keep(vectors)
        agents: dict[str, tuple[Client, list[dict[str, Any]]]] = {}
        for chat in chats:
            client = running.agent(f"chat-{chat.name}")
            events = messages_of(chat, loops=loops)
            for begin in range(0, len(events), 200):
                client.post("/events", {"events": events[begin : begin + 200]})
            agents[chat.name] = client, questions_of(chat, {event["metadata"]["message"] for event in events})
        running.embed_all()
        for name, (client, questions) in agents.items():
            state = client.get("/index")
            if state["pending"] or state["failed"]:
                raise RuntimeError(f"The index of chat {name} is not ready: {state}")
            for question in questions:
                began = time.perf_counter()
                ranked = client.get("/recall", q=question["question"], type="event", limit=100, min_score=0)["items"]
                seconds = time.perf_counter() - began
                kept = client.get("/recall", q=question["question"], type="event", limit=KEPT)["items"]
                places = [item["metadata"]["message"] for item in ranked]
                kept_ids = [item["metadata"]["message"] for item in kept]
                records.append(
                    question
                    | {
                        "chat": name,
                        "ranks": [places.index(one) + 1 if one in places else None for one in question["evidence"]],
                        "kept": len(kept_ids),
                        "kept_right": len(set(kept_ids) & set(question["evidence"])),
                        "seconds": round(seconds, 5),
                    }
                )
    return records


def summary(records: list[dict[str, Any]]) -> dict[str, float | None]:
    """Averages over the questions with evidence."""
    asked = [r for r in records if r["evidence"]]
    precise = [r["kept_right"] / r["kept"] for r in asked if r["kept"]]
    return {
        "questions": len(asked),
        **{f"recall@{k}": statistics.fmean(share(r["ranks"], k) for r in asked) for k in (10, 20, 50)},
        "kept": statistics.fmean(r["kept_right"] / len(r["evidence"]) for r in asked),
        "precision": statistics.fmean(precise) if precise else None,
        "returned": statistics.fmean(r["kept"] for r in asked),
    }


def table(records: list[dict[str, Any]]) -> str:
    """All, each chat, each kind of question; then what unanswerable questions get."""
    groups = {"all": records}
    groups |= {f"chat {name}": [r for r in records if r["chat"] == name] for name in {r["chat"]: 0 for r in records}}
    groups |= {kind: [r for r in records if r["kind"] == kind] for kind in {r["kind"]: 0 for r in records}}
    columns = ("questions", "recall@10", "recall@20", "recall@50", "kept", "precision", "returned")
    lines = [f"{'':26}" + "".join(f"{column:>12}" for column in columns)]
    for label, chosen in groups.items():
        if any(r["evidence"] for r in chosen):
            found = summary(chosen)
            cells = "".join(f"{'-' if (n := found[c]) is None else round(n, 4):>12}" for c in columns)
            lines.append(f"{label:26}{cells}")
    unanswerable = [r["kept"] for r in records if r["kind"] == "abstention"]
    if unanswerable:
        some = sum(count > 0 for count in unanswerable)
        lines.append(
            f"abstention: {some} of {len(unanswerable)} get anything, {statistics.fmean(unanswerable):.1f} items each"
        )
    lines.append(f"median {statistics.median(r['seconds'] for r in records) * 1000:.1f} ms")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT_FOLDER, help="chats in BEAM's own format")
    parser.add_argument("--no-loops", action="store_true", help="the whole chat without loops of its own")
    parser.add_argument("--vectors", type=Path, help="a file that keeps vectors for the next time")
    options = parser.parse_args()
    chats = chats_of(options.folder)
    if not chats:
        sys.stderr.write(
            f"There are no chats in {options.folder}. BEAM (mohammadtavakoli78/BEAM) is no part of this project: give "
            "the path of a folder with chats in its format, make bench BEAM=/path/to/chats\n"
        )
        return 2
    records = measure(chats, loops=not options.no_loops, vectors=options.vectors)
    RESULTS.mkdir(parents=True, exist_ok=True)
    target = RESULTS / "beam.json"
    target.write_text(json.dumps({"summary": summary(records), "questions": records}, indent=1))
    print(f"{table(records)}\nper question: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
