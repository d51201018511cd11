"""What becomes of each labelled pair without a judge: `python -m benchmarks.fact_pairs [--split NAME] [--all]`.

The cosine is of the local embedder, the second fact is learned a day after the first one. No database is needed.
`--file` reads other pairs of the same form: one JSON object a line with label, old and new, and a split if any.
"""

import argparse
import json
import os
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.system import RESULTS

LABELS = ("paraphrase", "update", "contradiction", "refinement", "compatible", "unrelated")
GROUPS = {
    "changed": (("update", "contradiction"), "stored"),
    "beside": (("compatible", "unrelated", "refinement"), "queued"),
    "same": (("paraphrase",), "stored"),
}
"""Labels that want the same, and the outcome that none of them ought to have."""
PAIRS = Path(__file__).with_name("pairs.jsonl")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--file", type=Path, default=PAIRS)
    arguments.add_argument("--split", help="only this split")
    arguments.add_argument("--all", action="store_true", help="print every pair with its outcome and reasons")
    given = arguments.parse_args()

    # No query is made, but the settings want to know of a server.
    os.environ.setdefault("DATABASE_URL", "postgresql:///unused?host=/nonexistent")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    import django

    django.setup()
    pairs = [json.loads(line) for line in given.file.read_text().splitlines() if line.strip()]
    pairs = [pair for pair in pairs if given.split in (None, pair.get("split"))]
    found = {
        split: _report(split, [pair for pair in pairs if pair.get("split", "") == split], every=given.all)
        for split in dict.fromkeys(pair.get("split", "") for pair in pairs)
    }
    if given.file == PAIRS and given.split is None:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "fact-pairs.json").write_text(json.dumps(found, indent=1))
    return 1 if any(of["changed"]["confirmed"] for of in found.values()) else 0


def _report(split: str, pairs: list[dict[str, str]], *, every: bool) -> dict[str, dict[str, int]]:
    """Print the table of one split; returns what of GROUPS became wrong, and how many changed facts were confirmed."""
    from memory.comparison.compare_facts import Outcome, compare_facts
    from memory.comparison.fact_snapshot import FactSnapshot
    from memory.embedding.protocol import DEFAULT_MODEL, thresholds_of
    from memory.embedding.registry import embedder_named

    embedder = embedder_named(DEFAULT_MODEL)
    vectors = embedder.embed_documents([text for pair in pairs for text in (pair["old"], pair["new"])])
    learned = datetime(2026, 1, 1, tzinfo=UTC)
    table: Counter[tuple[str, str]] = Counter()
    for place, pair in enumerate(pairs):
        cosine = float(vectors[2 * place] @ vectors[2 * place + 1])
        subject = pair.get("subject", "")
        old = FactSnapshot(pair["old"], subject, moment=learned)
        new = FactSnapshot(pair["new"], subject, moment=learned + timedelta(days=1))
        found = compare_facts(old, new, cosine, thresholds_of(DEFAULT_MODEL))
        table[pair["label"], found.outcome] += 1
        if every:
            codes = ",".join(reason.code for reason in found.reasons)
            print(f"{pair['label'][:8]:8} {found.outcome:10} {cosine:.2f} {pair['old']} | {pair['new']} [{codes}]")
    print(f"\n{split or 'pairs'}: {len(pairs)} pairs")
    print(f"{'':14}" + "".join(f"{outcome:>12}" for outcome in Outcome) + f"{'all':>8}")
    for label in LABELS:
        counts = [table[label, outcome] for outcome in Outcome]
        print(f"{label:14}" + "".join(f"{count:12}" for count in counts) + f"{sum(counts):8}")
    return {
        group: {
            "pairs": sum(count for (label, _), count in table.items() if label in labels),
            "wrong": sum(table[label, outcome] for label in labels),
            "confirmed": sum(table[label, Outcome.CONFIRMED] for label in labels),
        }
        for group, (labels, outcome) in GROUPS.items()
    }


if __name__ == "__main__":
    sys.exit(main())
