"""Which spellings of subjects meet: python -m benchmarks.subject_names [FILE]

Each line of the file has "same" or "near" and two spellings, with tabs between them. Needs no database: a name is
merged by itself where its key or its meaning is that of another one, and proposed where there is a reason and the index
would find it. tests/memory/test_subject_names.py has the bounds, and learns the same pairs over HTTP.
"""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

PAIRS = Path(__file__).with_name("pairs.tsv")

Pair = tuple[str, str, str]


def pairs_read(path: Path = PAIRS) -> list[Pair]:
    """What each line says: "same" or "near", and the two spellings."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line.strip()]
    return [(what, one, other) for what, one, other in rows]


def outcome_of(one: str, other: str) -> str:
    """ "merged", "proposed: why" or "apart"."""
    from memory.subjects.name_similarity import key_of, likeness, marks_offered, marks_wanted, meaning_of

    if key_of(one) == key_of(other) or meaning_of(one) == meaning_of(other):
        return "merged"
    found = likeness(one, other)
    reachable = marks_wanted(other) & marks_offered(one) and marks_wanted(one) & marks_offered(other)
    return f"proposed: {found.code}" if found and reachable else "apart"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("file", nargs="?", type=Path, default=PAIRS)
    os.environ.setdefault("NOUS_SECRET_KEY", "only-for-a-benchmark-that-opens-no-database-0123456789")
    os.environ.setdefault("DATABASE_URL", "postgresql:///unused?host=/nonexistent")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    import django

    django.setup()
    counts: Counter[tuple[str, str]] = Counter()
    for what, one, other in pairs_read(parser.parse_args().file):
        outcome = outcome_of(one, other)
        counts[what, outcome.partition(":")[0]] += 1
        sys.stdout.write(f"{what}  {one} | {other}  {outcome}\n")
    for what in ("same", "near"):
        told = ", ".join(f"{counts[what, outcome]} {outcome}" for outcome in ("merged", "proposed", "apart"))
        sys.stdout.write(f"{what}: {told}\n")


if __name__ == "__main__":
    main()
