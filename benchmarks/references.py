"""Which memories an answer refers to, and what learning from it wins: python -m benchmarks.references [FILE]

The memory of each LoCoMo conversation is stored as in benchmarks/context_curve.py. Every question of categories 1 to 4
with evidence is sent to POST /api/context, and an answer made of the question and the gold answer is reported to
POST /api/context/{id}/response.

- evidence: a memory of the prompt that stands for a turn of the question's evidence. Strictly every other memory is
  none. LoCoMo's observations often say what the evidence says and name a turn close by, so precision is also given
  with what stands for a turn within 3 of the evidence left out.
- unrelated: the same prompts are answered by a summary of a session of another conversation, 100 to 300 words.
- boost: of each conversation the even questions are answered, then the odd ones are asked with the factor that follows
  from the answers (NOUS_USAGE_BOOST); the evidence in their prompts is what the factor wins. Held out: no question that
  is measured has been answered.
"""

import argparse
import json
import random
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.context_curve import Memory, remembered
from benchmarks.locomo import CATEGORIES, DEFAULT_FILE
from benchmarks.system import RESULTS, system

LONG_WORDS = 100
CLOSE_BY = 3
"""Turns."""
STRENGTHS = (0, 25, 50, 100)
BOOST_BUDGET = 1_000
"""Tokens of a prompt in which not everything has room."""


def place_of(turn: str) -> tuple[int, int]:
    session, number = re.findall(r"\d+", turn)
    return int(session), int(number)


def is_close(turns: Iterable[str], evidence: Iterable[str]) -> bool:
    """Whether one of the turns is within `CLOSE_BY` of the evidence."""
    wanted = [place_of(turn) for turn in evidence]
    return any(
        session == other and abs(number - place) <= CLOSE_BY
        for session, number in map(place_of, turns)
        for other, place in wanted
    )


def gold_of(sample: dict[str, Any], question: dict[str, Any]) -> Any:
    """The gold answer of a question."""
    return sample["qa"][int(question["id"].split("/")[1])].get("answer")


def long_answers(samples: Sequence[dict[str, Any]], sample: dict[str, Any]) -> list[str]:
    """Summaries of sessions of other conversations."""
    return [
        text
        for other in samples
        if other is not sample
        for text in other["session_summary"].values()
        if len(text.split()) >= LONG_WORDS
    ]


def rows_of(memory: Memory, sample: dict[str, Any], others: list[str]) -> list[dict[str, Any]]:
    """One record for each memory of each prompt."""
    rows = []
    for question in memory.questions:
        gold = gold_of(sample, question)
        for kind, answer in (("answer", f"{question['question']} {gold}"), ("unrelated", random.choice(others))):
            run = memory.client.post("/context", {"session_id": "references", "input": question["question"]})["id"]
            items = memory.client.post(f"/context/{run}/response", {"response": answer})["items"]
            for item in items:
                turns = memory.turns.get((item["type"], item["id"]), set())
                rows.append(
                    {
                        "question": question["id"],
                        "category": question["category"],
                        "answer": kind,
                        "overlap": item["overlap"],
                        "referenced": item["referenced"],
                        "evidence": bool(turns & set(question["evidence"])),
                        "close": is_close(turns, question["evidence"]),
                    }
                )
    return rows


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    answered = [row for row in rows if row["answer"] == "answer"]
    unrelated = [row for row in rows if row["answer"] == "unrelated"]
    marked = [row for row in answered if row["referenced"]]
    found = sum(row["evidence"] for row in marked)
    return {
        "memories": len(answered),
        "evidence": sum(row["evidence"] for row in answered),
        "recall": found / max(sum(row["evidence"] for row in answered), 1),
        "precision": found / max(len(marked), 1),
        "precision_close_aside": found / max(sum(row["evidence"] or not row["close"] for row in marked), 1),
        "unrelated_marked": statistics.fmean(row["referenced"] for row in unrelated) if unrelated else 0.0,
    }


def boost_won(memory: Memory, sample: dict[str, Any]) -> dict[int, list[float]]:
    """By strength of the factor, the share of evidence in the prompt of each odd question, the even ones answered."""
    from django.conf import settings

    from context.engine.analysis.request import ContextRequest
    from context.services.context import context_assemble
    from identity.models import Agent, ApiToken
    from identity.principal import Principal

    agent = Agent.objects.get(slug=memory.name)
    by = Principal.of_token(ApiToken.objects.get(agent=agent))
    for question in memory.questions[::2]:
        gold = gold_of(sample, question)
        run = memory.client.post("/context", {"session_id": "boost", "input": question["question"]})["id"]
        memory.client.post(f"/context/{run}/response", {"response": f"{question['question']} {gold}"})
    found: dict[int, list[float]] = {strength: [] for strength in STRENGTHS}
    for question in memory.questions[1::2]:
        for strength in STRENGTHS:
            settings.USAGE_BOOST_PERCENT = strength
            request = ContextRequest("held out", question["question"], budget=BOOST_BUDGET, fill=True, dry_run=True)
            record = context_assemble(agent=agent, request=request, by=by)
            keys = [(item["type"], item["id"]) for section in record.sections for item in section["items"]]
            turns = set().union(*(memory.turns.get(key, set()) for key in keys))
            found[strength].append(len(turns & set(question["evidence"])) / len(question["evidence"]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=DEFAULT_FILE, help="in LoCoMo's own format")
    options = parser.parse_args()
    if not options.file.exists():
        sys.stderr.write(
            f"There is no file {options.file}. LoCoMo (snap-research/locomo, CC BY-NC 4.0) is no part of this project: "
            "give the path of a file in its format.\n"
        )
        return 2
    samples = json.loads(options.file.read_text())
    random.seed(1)
    rows: list[dict[str, Any]] = []
    won: dict[str, dict[int, float]] = {}
    with system() as running:
        memories = [remembered(running, sample) for sample in samples]
        running.embed_all()
        for memory, sample in zip(memories, samples, strict=True):
            shares = boost_won(memory, sample)
            won[memory.name] = {strength: statistics.fmean(each) for strength, each in shares.items()}
            print(f"{memory.name}: evidence by NOUS_USAGE_BOOST {won[memory.name]}", flush=True)
        for memory, sample in zip(memories, samples, strict=True):
            rows += rows_of(memory, sample, long_answers(samples, sample))
    groups = {"all": rows} | {
        label: [row for row in rows if row["category"] == number] for number, label in CATEGORIES.items()
    }
    found = {label: figures(chosen) for label, chosen in groups.items() if chosen}
    for label, each in found.items():
        print(f"{label:12}" + "".join(f"{name} {value:.3f}  " for name, value in each.items()))
    RESULTS.mkdir(parents=True, exist_ok=True)
    target = RESULTS / "references.json"
    target.write_text(json.dumps({"summary": found, "boost": won, "memories": rows}, indent=1))
    print(f"per memory: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
