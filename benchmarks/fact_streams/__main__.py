"""Streams of facts over HTTP, an agent each: `python -m benchmarks.fact_streams [--locomo FILE] [--day N] [FILE]`.

Without FILE, the streams of this folder. For each row: what became of the facts that change, repeat, refine or leave
alone what was learned before; how many reviews wait for people at its end; how many facts were superseded or confirmed
although both hold; and how many replaced facts a prompt about them still tells without a mark.

With --day, all rows in turns for one agent, as a reviewer meets them: a review is counted as five seconds.
"""

import argparse
import json
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.fact_streams.label_judge import label_judge, labels_of
from benchmarks.fact_streams.rows import COMPATIBLE, Row, Step, day_of, observations, rows_of
from benchmarks.system import RESULTS, Client, system

STREAMS = Path(__file__).with_name("streams.json")
ACTIONS = ("confirmed", "superseded", "stored", "queued")
SECONDS_PER_REVIEW = 5
MARKS = ("(contested", "(older", "(superseded")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", nargs="?", type=Path, default=STREAMS)
    arguments.add_argument("--locomo", type=Path, help="conversations with observations, in the format of LoCoMo")
    arguments.add_argument("--day", type=int, default=0, metavar="N", help="N facts of all rows, for one agent")
    arguments.add_argument("--judge", action="store_true", help="with a judge that answers by the labels, 5 %% wrong")
    arguments.add_argument("--budget", action="store_true", help="with the default budget of attention")
    arguments.add_argument("--show", action="store_true", help="print each fact that became something else")
    given = arguments.parse_args()
    rows = [*rows_of(json.loads(given.file.read_text()))]
    if given.locomo:
        rows += observations(json.loads(given.locomo.read_text()))
    if given.day:
        rows = [day_of(rows, given.day)]
    found: dict[str, Any] = {}
    judge = label_judge(labels_of(rows)) if given.judge else nullcontext(({}, []))
    with judge as (settings, calls), system(worker=given.judge, settings=settings) as running:
        for number, row in enumerate(rows):
            slug = f"stream-{number}"
            client = running.agent(slug)
            if not given.budget:
                ask_without_limit(slug)
            found[row.name] = measured(client, slug, row, show=given.show)
            print(f"{row.name:60}" + ", ".join(f"{value} {name}" for name, value in found[row.name].items()))
    if given.judge:
        print(f"The judge was asked about {sum(calls)} pairs in {len(calls)} calls.")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "fact-streams.json").write_text(json.dumps(found, indent=1))
    return 0


def measured(client: Client, slug: str, row: Row, *, show: bool) -> dict[str, Any]:
    """Learn the facts of a row one after another; the counts of its table."""
    learned = [(step, client.post("/facts", {"content": step.content, "subject": step.subject})) for step in row.steps]
    counted = [(step, answer["action"]) for step, answer in learned if step.counts]
    table = Counter(action for _, action in counted)
    wrong = [step for step, action in counted if step.wanted == COMPATIBLE and action in ("superseded", "confirmed")]
    stale = [step for step in row.steps if step.replaces and is_told_unmarked(client, step)]
    waiting = reviews_waiting(slug)
    for step, action in counted if show else ():
        if action not in step.wanted:
            print(f"    {action}: {step.content}")
    for step in stale if show else ():
        print(f"    told without a mark: {step.replaces}")
    return {action: table[action] for action in ACTIONS} | {
        "facts": len(counted),
        "wrong": len(wrong),
        "stale": len(stale),
        "replaced": sum(1 for step in row.steps if step.replaces),
        "reviews": waiting,
        "minutes": round(waiting * SECONDS_PER_REVIEW / 60, 1),
    }


def is_told_unmarked(client: Client, step: Step) -> bool:
    """Whether a prompt about both sentences tells the one that was replaced, as plain as if it held."""
    common = [word for word in step.replaces.rstrip(".").split() if word in step.content.rstrip(".").split()]
    question = f"What do you know of {step.subject}: {' '.join(common)}?"
    prompt = client.post("/context", {"input": question, "session_id": "streams", "dry_run": True})["system_prompt"]
    told = step.replaces.rstrip(".")
    lines = [line for line in prompt.splitlines() if line.lstrip().startswith("- ") and told in line]
    return any(not any(mark in line for mark in MARKS) for line in lines)


def ask_without_limit(slug: str) -> None:
    """Deciding well counts, and hiding does not: no question is left out for the attention that it costs."""
    from identity.models import Agent
    from memory.policy.oversight import ATTENTION_KEY, AttentionBudget

    agent = Agent.objects.get(slug=slug)
    agent.config[ATTENTION_KEY] = AttentionBudget(unlimited=True).as_json()
    agent.save(update_fields=["config"])


def reviews_waiting(slug: str) -> int:
    """The reviews of an agent's memory that wait for people, without blind samples of what was decided."""
    from memory.models import MemoryReview

    return MemoryReview.objects.pending().filter(agent__slug=slug, details__blind__isnull=True).count()


if __name__ == "__main__":
    sys.exit(main())
