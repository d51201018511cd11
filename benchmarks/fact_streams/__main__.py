"""Streams of facts over HTTP, an agent each: `python -m benchmarks.fact_streams [--locomo FILE] [FILE]`.

Without FILE, the streams of this folder in four domains. For each row: what became of the facts that change, repeat,
refine or leave alone what was learned before.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.system import RESULTS, Client, system

STREAMS = Path(__file__).with_name("streams.json")
ACTIONS = ("confirmed", "superseded", "stored", "queued")
WANTED = {
    "states": {"superseded"},
    "many": {"stored"},
    "paraphrases": {"confirmed"},
    "refinements": {"stored", "superseded"},
    "flips": {"superseded"},
}
"""What the second fact of a pair should become; everything else in a stream should be stored."""

Fact = tuple[str, str]
"""Subject and sentence."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", nargs="?", type=Path, default=STREAMS)
    arguments.add_argument("--locomo", type=Path, help="conversations with observations, in the format of LoCoMo")
    arguments.add_argument("--show", action="store_true", help="print each fact that became something else")
    given = arguments.parse_args()
    found: dict[str, Any] = {}
    with system(worker=False) as running:
        streams = [*rows_of(json.loads(given.file.read_text()))]
        if given.locomo:
            streams += observations(json.loads(given.locomo.read_text()))
        for number, (name, facts, judged, wanted) in enumerate(streams):
            learned = learn(running.agent(f"stream-{number}"), facts)
            counted = [(fact, action) for fact, action, counts in zip(facts, learned, judged, strict=True) if counts]
            table = Counter(action for _, action in counted)
            found[name] = {action: table[action] for action in ACTIONS} | {"facts": len(counted)}
            print(f"{name:34}" + "".join(f"{table[action]:6} {action}" for action in ACTIONS))
            for (_, content), action in counted if given.show else ():
                if action not in wanted:
                    print(f"    {action}: {content}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "fact-streams.json").write_text(json.dumps(found, indent=1))
    return 0


def learn(client: Client, facts: Sequence[Fact]) -> list[str]:
    """Learn these facts one after another; the action of each."""
    return [client.post("/facts", {"content": content, "subject": subject})["action"] for subject, content in facts]


def rows_of(data: dict[str, Any]) -> Iterator[tuple[str, list[Fact], list[bool], set[str]]]:
    """The streams of a file: name, facts, which of them count, and what these should become."""
    for domain, rows in data.items() if "states" not in data else [("", data)]:
        for kind, wanted in WANTED.items():
            pairs = [_pair(each) for each in rows.get(kind, ())]
            facts = [fact for pair in pairs for fact in pair]
            if facts:
                yield f"{domain} {kind}".strip(), facts, [False, True] * len(pairs), wanted
        for subject, contents in rows.get("coexist", {}).items():
            for named in (subject, ""):
                facts = [(named, content) for content in contents]
                label = f"{domain} coexist {subject}{'' if named else ' without subject'}".strip()
                yield label, facts, [True] * len(facts), {"stored"}
        if rows.get("without_subject"):
            facts = [("", content) for content in rows["without_subject"]]
            yield f"{domain} without subject".strip(), facts, [True] * len(facts), {"stored"}


def _pair(each: Any) -> tuple[Fact, Fact]:
    if isinstance(each, dict):
        return (each["subject"], each["old"]), (each["subject"], each["new"])
    subject = each[0] if len(each) == 3 else ""
    return (subject, each[-2]), (subject, each[-1])


def observations(conversations: list[dict[str, Any]]) -> Iterator[tuple[str, list[Fact], list[bool], set[str]]]:
    """The observations of the first two conversations, each in their order."""
    for number, conversation in enumerate(conversations[:2]):
        sessions = sorted(conversation["observation"].items(), key=lambda item: int(re.findall(r"\d+", item[0])[0]))
        facts = [(who, item[0]) for _, told in sessions for who, items in told.items() for item in items]
        yield f"observations {number}", facts, [True] * len(facts), {"stored", "superseded", "confirmed"}


if __name__ == "__main__":
    sys.exit(main())
