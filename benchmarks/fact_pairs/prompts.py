"""Whether a prompt shows a changed fact's older half unmarked: `python -m benchmarks.fact_pairs.prompts [SPLIT ...]`.

Over HTTP. Each changed pair is learned by an agent of its own, one after the other and under one subject; then three
contexts are asked for, with the old sentence, the new one and the subject as their input. Printed for each split: in
how many pairs a prompt shows the older one unmarked, how many of these are stored without a question, how many have a
newer one that is quarantined, which no prompt may mention, and the rest.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.system import Client, system

PAIRS = Path(__file__).with_name("pairs.jsonl")
CHANGED = ("update", "contradiction")
APART = ("stored", "held")
SUBJECT = "the same thing"
"""Of pairs that were written without one."""


def main() -> int:
    pairs = [json.loads(line) for line in PAIRS.read_text().splitlines()]
    wanted = sys.argv[1:] or list(dict.fromkeys(pair["split"] for pair in pairs))
    counts: Counter[tuple[str, str]] = Counter()
    with system() as running:
        for number, pair in enumerate(pairs):
            if pair["split"] in wanted and pair["label"] in CHANGED:
                action, unmarked = _measure(running.agent(f"pair-{number}"), pair)
                counts[pair["split"], "pairs"] += 1
                counts[pair["split"], "unmarked"] += unmarked
                counts[pair["split"], action] += unmarked
                if unmarked and action not in APART:
                    print(f"asked, and unmarked: {pair['old']} | {pair['new']}", flush=True)
    beyond = 0
    for split in wanted:
        unmarked, (stored, held) = counts[split, "unmarked"], (counts[split, action] for action in APART)
        others = unmarked - stored - held
        told = f"unmarked {unmarked}, of them stored {stored}, held {held}, others {others}"
        beyond += others
        print(f"{split:8} {counts[split, 'pairs']:4} pairs: {told}")
    return 1 if beyond else 0


def _measure(client: Client, pair: dict[str, Any]) -> tuple[str, bool]:
    """What became of the newer one; and whether a prompt shows the older one unmarked."""
    subject = pair.get("subject") or SUBJECT
    old, new = (client.post("/facts", {"content": pair[side], "subject": subject}) for side in ("old", "new"))
    shown = False
    for text in (pair["old"], pair["new"], f"What do you know about {subject}?"):
        answer = client.post("/context", {"session_id": "benchmark", "input": text})
        items = [item for section in answer["sections"] for item in section["items"]]
        shown |= any(item["id"] == old["fact"]["id"] and not item["contested"] for item in items)
    return new["action"], shown


if __name__ == "__main__":
    sys.exit(main())
