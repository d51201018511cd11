"""The streams of a file: rows of facts to be learned one after another, with what should become of each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

REPLACED = ("states", "relations", "updates", "flips")
WANTED = {
    **dict.fromkeys(REPLACED, frozenset({"superseded"})),
    "many": frozenset({"stored"}),
    "paraphrases": frozenset({"confirmed"}),
    "refinements": frozenset({"stored", "superseded"}),
}
"""What the second fact of a pair should become; every other fact should be stored."""
COMPATIBLE = frozenset({"stored"})


@dataclass(frozen=True, slots=True)
class Step:
    """One fact to be learned. `counts`: it is measured. `replaces`: the sentence that is no longer true after it.
    `kind`: the key of its pair in the file."""

    subject: str
    content: str
    wanted: frozenset[str] = COMPATIBLE
    counts: bool = True
    replaces: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A stream for an agent of its own."""

    name: str
    steps: tuple[Step, ...]


def rows_of(data: dict[str, Any]) -> Iterator[Row]:
    """The rows of a file: pairs, and lists of facts that all hold, with and without their subject."""
    for domain, rows in data.items() if "states" not in data else [("", data)]:
        for kind, wanted in WANTED.items():
            steps = [step for each in rows.get(kind, ()) for step in _pair(each, kind, wanted)]
            if steps:
                yield Row(f"{domain} {kind}".strip(), tuple(steps))
        for subject, contents in rows.get("coexist", {}).items():
            for named in (subject, ""):
                label = f"{domain} coexist {subject}{'' if named else ' without subject'}".strip()
                yield Row(label, tuple(Step(named, content) for content in contents))
        if rows.get("without_subject"):
            yield Row(f"{domain} without subject".strip(), tuple(Step("", each) for each in rows["without_subject"]))


def _pair(each: Any, kind: str, wanted: frozenset[str]) -> tuple[Step, Step]:
    if isinstance(each, dict):
        subject, old, new = each["subject"], each["old"], each["new"]
    else:
        subject, (old, new) = each[0] if len(each) == 3 else "", each[-2:]
    # What a stream said before may be said again: only the second fact of a pair is measured.
    return Step(subject, old, counts=False), Step(
        subject, new, wanted, replaces=old if kind in REPLACED else "", kind=kind
    )


def observations(conversations: list[dict[str, Any]]) -> Iterator[Row]:
    """The observations of the first two conversations of LoCoMo, each in their order."""
    for number, conversation in enumerate(conversations[:2]):
        sessions = sorted(conversation["observation"].items(), key=lambda item: int(re.findall(r"\d+", item[0])[0]))
        told = [(who, item[0]) for _, facts in sessions for who, items in facts.items() for item in items]
        wanted = frozenset({"stored", "superseded", "confirmed"})
        yield Row(f"observations {number}", tuple(Step(who, content, wanted) for who, content in told))


def day_of(rows: list[Row], size: int) -> Row:
    """A day of one agent: the rows in turns, each in its order, until `size` facts."""
    waiting = [list(row.steps) for row in rows]
    steps: list[Step] = []
    seen: set[str] = set()
    while len(steps) < size and any(waiting):
        for each in waiting:
            taken = each[: 2 if each and not each[0].counts else 1]
            del each[: len(taken)]
            # A sentence of two rows is learned once; a stream that changes its mind back has no place in a mix.
            if not any(step.content in seen for step in taken):
                steps += taken
                seen |= {step.content for step in taken}
    return Row(f"a day of {min(size, len(steps))} facts", tuple(steps[:size]))
