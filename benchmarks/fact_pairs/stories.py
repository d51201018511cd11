"""Pairs of facts made of stories.txt, to fit with: one thing after the other, each with what became of it.

`# subject`, then a line for each thing that is said of it: `old / other words > new + more of it`. The states of one
line exclude each other, in the order of time; two lines of one subject are both true, in whatever state.
"""

import random
import re
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

STORIES = Path(__file__).with_name("stories.txt")
CHANGED, REVERSED, SAME, TRUE, OTHER = "update", "contradiction", "paraphrase", "compatible", "unrelated"
REFINED = "refinement"
SPEAKERS = ("me", "us", "user")
"""Subjects that are one person."""
NAMED, TURNED = 0.7, 0.4
"""Shares of pairs whose subject is known, and of changes that are learned the other way round too."""
BESIDE, NEAREST = 3, 3
"""So many pairs for each sentence, with what is true beside it, and with what is said of other subjects."""

MORE = "+ "
Lines = list[list[list[str]]]


def stories() -> list[tuple[str, Lines]]:
    """Each subject with its lines of states, each state in one or more wordings; what says more begins with MORE."""
    parts = [part.strip().splitlines() for part in ("\n" + STORIES.read_text()).split("\n# ")[1:]]
    return [
        (subject, [[_wordings(state) for state in line.split(" > ")] for line in lines]) for subject, *lines in parts
    ]


def _wordings(state: str) -> list[str]:
    return [f"{text}." for text in re.split(rf" / | (?={re.escape(MORE)})", state)]


def story_pairs(seed: int) -> list[dict[str, str]]:
    """All changes, other wordings, and pairs of two lines; the same ones for the same `seed`."""
    found: list[dict[str, str]] = []
    for number, (subject, lines) in enumerate(stories()):
        choose = random.Random(f"{seed} {number} {subject}")
        states = [pair for line in lines for pair in combinations(line, 2)]
        changes = [change for old, new in states for change in product(old, new)]
        pairs = [(CHANGED, *change) for change in changes]
        pairs += [(REVERSED, new, old) for old, new in changes if choose.random() < TURNED]
        wordings = [pair for line in lines for state in line for pair in pairwise(state)]
        pairs += [(REFINED if new.startswith(MORE) else SAME, old, new) for old, new in wordings]
        for at, line in enumerate(lines):
            others = [text for other in lines[:at] + lines[at + 1 :] for state in other for text in state]
            texts = [text for state in line for text in state]
            pairs += [(TRUE, text, other) for text in texts for other in choose.sample(others, BESIDE)]
        for label, old, new in pairs:
            named = {"subject": subject if choose.random() < NAMED else "", "split": f"story {number}"}
            found.append({"label": label, "old": old.removeprefix(MORE), "new": new.removeprefix(MORE), **named})
    return found


def other_stories(embedder: Any) -> list[dict[str, str]]:
    """Each sentence with the NEAREST that are said of other subjects, all of them without one."""
    said = [
        (number, subject in SPEAKERS, text.removeprefix(MORE))
        for number, (subject, lines) in enumerate(stories())
        for line in lines
        for state in line
        for text in state
    ]
    vectors = embedder.embed_documents([text for *_, text in said])
    found = []
    for (number, speaks, text), vector in zip(said, vectors, strict=True):
        order = sorted(range(len(said)), key=lambda place: (-round(float(vectors[place] @ vector), 6), place))
        others = [said[place] for place in order if said[place][0] != number and not (speaks and said[place][1])]
        about = {"label": OTHER, "subject": "", "new": text, "split": f"story {number}"}
        found += [about | {"old": other} for _, _, other in others[:NEAREST]]
    return found
