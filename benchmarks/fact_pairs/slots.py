"""Pairs of facts made of slots.txt, to fit with: the same slot of a thing said twice, or two slots of it.

Two sentences of one slot are a paraphrase or a change; of two slots, of two things of which one has many, or of what is
true beside everything they are no change. Slots that speak of one area of life may end each other, and are not paired.
"""

import random
import re
from dataclasses import dataclass, field
from pathlib import Path

SLOTS = Path(__file__).with_name("slots.txt")
CHANGED, SAME, TRUE = "update", "paraphrase", "compatible"
ADDED = ("too", "as well", "also", "besides")
DETAILS = (
    "with {name}",
    "because of the weather",
    "in {month}",
    "since 2019",
    "near the station",
    "for the second time",
    "together with two others",
    "on {day}",
    "for work",
    "called Rex",
    "at {clock}",
    "in {city}",
)
AREAS = (
    r"\bjob|\bwork(s|ed)? (as|at|remotely|from home|part|nights)|hired|employ|retired|\bboss|manager|shift|unemployed"
    r"|commut|position|by train|to become|salary|earns|lead\b|retrained|student|studying|licence|drives? a|\bcar is"
    r"|own boss",
    r"married|partner|single|wife|children|child|pregnant|alone|parents|flatmates|flat in|live in|lives in|engaged",
    r"\bill\b|hospital|pain|broken leg|headache|medication|tablets|walk|care home|nursing|diet|eat|ward|operation"
    r"|critical|household|running|gym|fever|doctor|weigh",
    r"is down|slow|stable|beta|deprecated|in production|shut|one core|offline|bug",
    r"open to|closed on|renovated|closes|is open|accepts new|opens at|days a week|open until",
    r"free|costs|entry|price|pays|ticket|fee|plan\b|budget",
    r"open;|finished|approv|on track|on hold|unsigned|draft|due|cancelled|dead|assigned|works on|working on"
    r"|is blocked|priority|deadline|behind schedule|take place|online|in person|outdoors|confirmed|prepared|is over"
    r"|sold out|fully booked",
    r"broken|works;|waterproof|for sale|belongs|lent|rent|new;|is lost|in \{room|locked",
    r"takes? notes|editor|laptop|\bphone",
    r"authentication|accessible from|encryption|plain text|public",
    r"runs on \{cloud|runs in \{city|based in|head ?office|sits in",
    r"led by|responsible for|belongs to the platform|looks after|maintained by|assigned to",
)


@dataclass(slots=True)
class Slot:
    """`groups`: sentences that say the same of a thing, each of them excluded by the others; of `pools` one group for
    what is so, and one for what has changed."""

    groups: list[list[str]]
    many: bool = False
    beside: bool = False
    said_of: bool = False
    pooled: bool = False
    areas: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Maker:
    """Makes pairs of one kind of thing after the other; the same ones for the same `seed`."""

    seed: int
    pools: dict[str, list[str]] = field(default_factory=dict)

    def pairs(self, each: int) -> list[dict[str, str]]:
        """`each`: so many changes for a slot; of the others in proportion."""
        kinds: dict[str, tuple[list[str], list[Slot]]] = {}
        found: list[dict[str, str]] = []
        for line in SLOTS.read_text().splitlines():
            if line.startswith("@"):
                name, _, values = line[1:].partition(": ")
                self.pools[name] = values.split("; ")
            elif line.startswith("# ") and ": " in line:
                kind, _, names = line[2:].partition(": ")
                slots: list[Slot] = []
                kinds[kind] = names.split("; "), slots
            elif line and not line.startswith("#"):
                slots.append(_slot(line))
        for kind, (names, slots) in kinds.items():
            choose, more = (random.Random(f"{self.seed} {kind}{each}") for each in ("", " more"))
            for number, slot in enumerate(slots):
                for _ in range(each if not slot.beside else 2 * each):
                    made = self._of(slot, slots, names, choose, more)
                    found += [pair | {"split": f"made {kind}", "slot": f"{kind} {number}"} for pair in made]
        return found

    def _of(
        self, slot: Slot, slots: list[Slot], names: list[str], choose: random.Random, more: random.Random
    ) -> list[dict[str, str]]:
        made: list[tuple[str, str, str]] = []
        if slot.said_of:
            made.append(
                (TRUE, *self._filled(choose.choice(slot.groups[0]), choose.choice(slot.groups[1]), choose, same=True))
            )
        elif not slot.beside:
            made.append(self._changed(slot, choose))
            if choose.random() < 0.5:
                group = choose.choice(slot.groups[: 1 if slot.pooled else 2])
                if len(group) > 1:
                    one, other = choose.sample(group, 2)
                    made.append((SAME, *self._filled(one, other, choose, same=True)))
            if (slot.many or slot.pooled) and more.random() < 0.2:
                texts = [more.choice(slot.groups[0]) for _ in range(2)]
                made.append((TRUE, *self._filled(texts[0], f"{texts[1]} {more.choice(ADDED)}", more)))
            if choose.random() < 0.2:
                plain = choose.choice(slot.groups[0])
                made.append((TRUE, *self._filled(plain, f"{plain} {choose.choice(DETAILS)}", choose, same=True)))
        others = [each for each in slots if each is not slot and not each.areas & slot.areas]
        for _ in range(1 if slot.said_of else 2):
            pair = [choose.choice(choose.choice(each.groups)) for each in (slot, choose.choice(others))]
            choose.shuffle(pair)
            made.append((TRUE, *self._filled(*pair, choose, same=True)))
        found = []
        for label, one, other in made:
            name = choose.choice(names)
            subject = name.removeprefix("the ") if choose.random() < 0.75 else ""
            found.append(
                {"label": label, "subject": subject, "old": _sentence(one, name), "new": _sentence(other, name)}
            )
        if len(names) > 1 and not slot.beside and choose.random() < 0.4:
            # Of another thing of the kind the same may be said.
            texts = self._changed(slot, choose)[1:] if not slot.said_of else [choose.choice(slot.groups[0])] * 2
            texts = self._filled(*texts, more)
            old, new = (_sentence(text, name) for text, name in zip(texts, choose.sample(names, 2), strict=True))
            found.append({"label": TRUE, "subject": "", "old": old, "new": new})
        return found

    def _changed(self, slot: Slot, choose: random.Random) -> tuple[str, str, str]:
        if slot.many:
            return (TRUE, *self._filled(choose.choice(slot.groups[0]), choose.choice(slot.groups[0]), choose))
        if not slot.pooled:
            groups = choose.sample(slot.groups, 2)
            old, new = groups if choose.random() < 0.3 else (slot.groups[0], choose.choice(slot.groups[1:]))
            return (CHANGED, *self._filled(choose.choice(old), choose.choice(new), choose))
        plain, changes = slot.groups[0], slot.groups[1:]
        new = choose.choice(changes[0] if changes and choose.random() < 0.7 else plain)
        old = choose.choice(
            plain if choose.random() < 0.85 or not changes else [c for c in changes[0] if "-}" not in c] or plain
        )
        return (CHANGED, *self._filled(old, new, choose))

    def _filled(self, old: str, new: str, choose: random.Random, *, same: bool = False) -> tuple[str, str]:
        """With values of the pools: `same` ones in both, or others in the new one."""
        before = {name: choose.choice(values) for name, values in self.pools.items()}
        after = (
            before
            if same
            else {n: choose.choice([v for v in values if v != before[n]]) for n, values in self.pools.items()}
        )
        last = (
            {n: choose.choice([v for v in values if v != before[n]]) for n, values in self.pools.items()}
            if same
            else before
        )

        def filled(text: str, values: dict[str, str]) -> str:
            return re.sub(r"\{(\w+)(-?)\}", lambda m: (last if m[2] else values)[m[1]] if m[1] != "S" else m[0], text)

        return filled(old, before), filled(new, after)


def _slot(line: str) -> Slot:
    mark, text = (line[0], line[2:]) if line[:2] in ("+ ", "* ", "~ ") else ("", line)
    groups = [[each.strip() for each in group.split(";")] for group in re.split(r" >> | = | > ", text)]
    areas = {number for number, area in enumerate(AREAS) if re.search(area, text + ";")} if mark in ("", "~") else set()
    return Slot(groups, mark == "*", mark == "+", mark == "~", " >> " in text, areas)


def _sentence(text: str, name: str) -> str:
    text = text.replace("{S}", name)
    if text.endswith(" also"):
        before, verb, after = text.removesuffix(" also").partition(" is " if " is " in text else " ")
        text = (
            f"{before}{' is' if verb == ' is ' else ''} also {after}"
            if before in (name, "I") or verb == " is "
            else text
        )
    return text[:1].upper() + text[1:] + "."
