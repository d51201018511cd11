"""Evidence in the prompt by budget, beside plain top-k by cosine: python -m benchmarks.context_curve [FILE]

FILE is one in LoCoMo's format, or a folder of chats in BEAM's, whose messages are the memory (benchmarks.beam).

The memory of each LoCoMo conversation is posted to an agent of its own: its turns as events and its observations as
facts, each about its speaker and valid from its session on. Every question of categories 1 to 4 with evidence is sent
to POST /api/context as a dry run without explanation, twice for each budget: as it is by default, where the thresholds
hold, and with `fill`, where they fall in proportion to the budget. The agents are squires, whose profile
searches all layers, and have no identity, so that the fixed sections (frame and task) are as small as they get.

- A piece of evidence (a turn) is in the prompt when an item of it is: the turn's own event, whole, or a fact whose
  observation was drawn from that turn. An item that the engine shortened counts only when half of its text is left.
- complete: share of questions of which all evidence is in the prompt.
- evidence: share of a question's evidence in the prompt, averaged over questions.
- cosine: the same memories by their cosine with the question, with the vectors of the same index, rendered as the
  engine renders them. The whole budget is theirs: no headings, no frame, no task. One that does not fit is passed
  over, and the next one tried.
"""

import argparse
import json
import re
import statistics
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import beam
from benchmarks.locomo import CATEGORIES, DEFAULT_FILE, questions_of, turns_of
from benchmarks.system import RESULTS, Client, System, system
from benchmarks.vector_cache import vectors_keep

BUDGETS = (500, 1_000, 2_000, 4_000)
MIN_SHOWN = 0.5
"""Share of an item's text that must be in the prompt for the item to count."""


@dataclass(slots=True)
class Memory:
    """One conversation's agent. `turns` says, by (type, id) of a memory, which turns or messages it stands for."""

    name: str
    client: Client
    turns: dict[tuple[str, str], set[Any]] = field(default_factory=dict)
    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    questions: list[dict[str, Any]] = field(default_factory=list)


def remembered(running: System, sample: dict[str, Any], suffix: str = "", *, facts: bool = True) -> Memory:
    """Post one conversation's turns and, unless `facts` is false, its observations; `suffix` ends the agent's name."""
    name = f"{sample['sample_id']}{suffix}"
    memory = Memory(name, running.agent(name, prompt=""))
    conversation = sample["conversation"]
    events = turns_of(conversation, "prefix")
    for begin in range(0, len(events), 500):
        part = events[begin : begin + 500]
        answer = memory.client.post("/events", {"events": part})["events"]
        for event, stored in zip(part, answer, strict=True):
            memory.turns["event", str(stored["id"])] = {event["metadata"]["dia_id"]}
            memory.texts["event", str(stored["id"])] = event["content"]
    for name, by_speaker in sample["observation"].items() if facts else ():
        session = re.match(r"session_\d+", name)
        said = f"{conversation[f'{session[0]}_date_time']} +0000" if session else ""
        since = datetime.strptime(said, "%I:%M %p on %d %B, %Y %z").astimezone(UTC)
        for speaker, observations in by_speaker.items():
            for content, source in observations:
                body = {"content": content, "subject": speaker, "valid_from": since.isoformat()}
                fact = memory.client.post("/facts", body)["fact"]
                # What was known already is answered with the fact that is there.
                memory.turns.setdefault(("fact", fact["id"]), set()).update(re.findall(r"D\d+:\d+", str(source)))
                memory.texts["fact", fact["id"]] = fact["content"]
    memory.questions = questions_of(sample, {event["metadata"]["dia_id"] for event in events})
    return memory


def remembered_chat(running: System, chat: Path) -> Memory:
    """Post the messages of one chat."""
    memory = Memory(f"chat-{chat.name}", running.agent(f"chat-{chat.name}", prompt=""))
    events = beam.messages_of(chat)
    for begin in range(0, len(events), 200):
        part = events[begin : begin + 200]
        for event, stored in zip(part, memory.client.post("/events", {"events": part})["events"], strict=True):
            memory.turns["event", str(stored["id"])] = {event["metadata"]["message"]}
            memory.texts["event", str(stored["id"])] = event["content"]
    asked = beam.questions_of(chat, {event["metadata"]["message"] for event in events})
    memory.questions = [question for question in asked if question["evidence"]]
    return memory


def shown_by_engine(memory: Memory, question: str, budget: int, *, fill: bool) -> tuple[set[Any], dict[str, Any]]:
    """The turns that the prompt holds, and what it is made of."""
    body = {"session_id": "curve", "input": question, "budget": budget, "fill": fill, "dry_run": True}
    answer = memory.client.post("/context", body)
    if answer["tokens"] > budget or answer["failed"] or answer["degraded"]:
        raise RuntimeError(f"Not a context to measure: {answer['tokens']} tokens, {answer['failed']}")
    turns: set[Any] = set()
    counts: dict[str, int] = {}
    for section in answer["sections"]:
        for item in section["items"]:
            key = (item["type"], item["id"])
            if key not in memory.turns:
                continue
            counts[item["type"]] = counts.get(item["type"], 0) + 1
            if item["tokens"] * 4 >= MIN_SHOWN * len(memory.texts[key]):
                turns |= memory.turns[key]
    return turns, {
        "tokens": answer["tokens"],
        "fixed": sum(section["tokens"] for section in answer["sections"] if section["tier"] < 3),
        **counts,
    }


class Cosine:
    """All memories of an agent by cosine, with the vectors of the index."""

    def __init__(self, memory: Memory) -> None:
        import numpy as np
        from django.db import connection

        from context.engine.assembly import list_item
        from memory.embedding import embedder_named

        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT item_type, item_id, subject, happened_at, model, embedding::text FROM memory_searchitem"
                " WHERE agent_id = (SELECT id FROM identity_agent WHERE slug = %s) AND active ORDER BY id",
                [memory.name],
            )
            rows = cursor.fetchall()
        self._keys = [(row[0], row[1]) for row in rows]
        labels = [row[2] if row[0] == "fact" else f"{row[3]:%Y-%m-%d}" for row in rows]
        self._lines = [list_item(memory.texts[key], label) for key, label in zip(self._keys, labels, strict=True)]
        self._vectors = np.array([json.loads(row[5]) for row in rows], np.float32)
        self._embedder = embedder_named(rows[0][4])
        self._turns = memory.turns

    def ranked(self, question: str) -> list[int]:
        """Places of all memories, the closest first."""
        import numpy as np

        return list(np.argsort(-(self._vectors @ self._embedder.embed_query(question)), kind="stable"))

    def shown(self, ranked: list[int], budget: int) -> set[Any]:
        """The turns that fit into `budget` tokens."""
        from nousweb.lib.token_estimate import CHARACTERS_PER_TOKEN

        room = budget * CHARACTERS_PER_TOKEN
        turns: set[Any] = set()
        for place in ranked:
            needed = len(self._lines[place]) + (1 if room < budget * CHARACTERS_PER_TOKEN else 0)
            if needed <= room:
                room -= needed
                turns |= self._turns[self._keys[place]]
        return turns


def measure(source: Path, vectors: Path | None = None) -> list[dict[str, Any]]:
    """One record for each question of a file or folder, with what each budget shows of its evidence."""
    records: list[dict[str, Any]] = []
    with system() as running:
        if vectors:
            vectors_keep(vectors)
        if source.is_dir():
            memories = [remembered_chat(running, chat) for chat in beam.chats_of(source)]
        else:
            memories = [remembered(running, sample) for sample in json.loads(source.read_text())]
        running.embed_all()
        for memory in memories:
            state = memory.client.get("/index")
            if state["pending"] or state["failed"]:
                raise RuntimeError(f"The index of {memory.name} is not ready: {state}")
            plain = Cosine(memory)
            for question in memory.questions:
                ranked = plain.ranked(question["question"])
                wanted = set(question["evidence"])
                found = {}
                for budget in BUDGETS:
                    turns, parts = shown_by_engine(memory, question["question"], budget, fill=False)
                    filled, more = shown_by_engine(memory, question["question"], budget, fill=True)
                    found[str(budget)] = {
                        "engine": len(wanted & turns) / len(wanted),
                        "fill": len(wanted & filled) / len(wanted),
                        "fill_tokens": more["tokens"],
                        "cosine": len(wanted & plain.shown(ranked, budget)) / len(wanted),
                        **parts,
                    }
                records.append(question | {"conversation": memory.name, "budgets": found})
    return records


def summary(records: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Averages by budget."""
    found = {}
    for budget in map(str, BUDGETS):
        of_budget = [record["budgets"][budget] for record in records]
        found[budget] = {
            "engine_complete": statistics.fmean(one["engine"] == 1 for one in of_budget),
            "fill_complete": statistics.fmean(one["fill"] == 1 for one in of_budget),
            "cosine_complete": statistics.fmean(one["cosine"] == 1 for one in of_budget),
            "engine_evidence": statistics.fmean(one["engine"] for one in of_budget),
            "fill_evidence": statistics.fmean(one["fill"] for one in of_budget),
            "cosine_evidence": statistics.fmean(one["cosine"] for one in of_budget),
            "tokens": statistics.fmean(one["tokens"] for one in of_budget),
            "fill_tokens": statistics.fmean(one["fill_tokens"] for one in of_budget),
            "fixed_tokens": statistics.fmean(one["fixed"] for one in of_budget),
            "events": statistics.fmean(one.get("event", 0) for one in of_budget),
            "facts": statistics.fmean(one.get("fact", 0) for one in of_budget),
        }
    return found


def table(records: list[dict[str, Any]]) -> str:
    """All questions, then each conversation and category."""
    groups = {"all": records}
    for name in dict.fromkeys(record["conversation"] for record in records):
        groups[name] = [record for record in records if record["conversation"] == name]
    for number, label in CATEGORIES.items():
        groups[label] = [record for record in records if record.get("category") == number]
    for kind in dict.fromkeys(record["kind"] for record in records if "kind" in record):
        groups[kind] = [record for record in records if record.get("kind") == kind]
    columns = list(next(iter(summary(records).values())))
    lines = [f"{'':26}{'budget':>8}" + "".join(f"{column:>17}" for column in columns)]
    for label, chosen in groups.items():
        for budget, found in summary(chosen).items() if chosen else ():
            lines.append(f"{label:26}{budget:>8}" + "".join(f"{found[column]:>17.3f}" for column in columns))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "file", nargs="?", type=Path, default=DEFAULT_FILE, help="in LoCoMo's format, or a folder in BEAM's"
    )
    parser.add_argument("--vectors", type=Path, help="a file that keeps vectors for the next time")
    options = parser.parse_args()
    if not options.file.exists() or (options.file.is_dir() and not beam.chats_of(options.file)):
        sys.stderr.write(
            f"There is no file {options.file}. LoCoMo (snap-research/locomo, CC BY-NC 4.0) is no part of this project: "
            "give the path of a file in its format, make bench LOCOMO=/path/to/locomo10.json\n"
        )
        return 2
    records = measure(options.file, options.vectors)
    RESULTS.mkdir(parents=True, exist_ok=True)
    target = RESULTS / f"context-curve{'-beam' if options.file.is_dir() else ''}.json"
    target.write_text(json.dumps({"summary": summary(records), "questions": records}, indent=1))
    print(f"{table(records)}\nper question: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
