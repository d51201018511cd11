"""Sections of an identity, their risk and the guardrails, declared as data.

Source: seed 008, part A and "Self-Evolution Guardrails".
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.db import models

from nousweb.lib import Invalid
from nousweb.lib.prompt_escaping import fence_block


class Risk(models.TextChoices):
    LOW = "low", "Low"
    MEDIUM = "medium", "Medium"
    HIGH = "high", "High"


class Section(models.TextChoices):
    """The sections of an identity, in the order in which a prompt shows them."""

    CHARACTER = "character", "Character"
    VALUES = "values", "Values"
    PROTOCOLS = "protocols", "Protocols"
    PREFERENCES = "preferences", "Preferences"
    BOUNDARIES = "boundaries", "Boundaries"
    ENVIRONMENT = "environment", "Environment"


SECTION_NAMES = tuple(Section.values)
"""In the order of a prompt."""


def section_check(name: str) -> str:
    """Return `name` if it is a section; raise Invalid, naming it, otherwise."""
    if name not in SECTION_NAMES:
        raise Invalid(
            f"There is no identity section {name[:60]!r}; the sections are {', '.join(SECTION_NAMES)}.",
            field="section",
        )
    return name


@dataclass(frozen=True, slots=True)
class SectionPolicy:
    """The guardrail of one section: its risk, whether the agent may apply a change itself, and its purpose."""

    risk: Risk
    agent_may_apply: bool
    purpose: str


SECTION_POLICY: dict[str, SectionPolicy] = {
    Section.CHARACTER: SectionPolicy(Risk.HIGH, False, "Who the agent is: role, voice, temperament."),
    Section.VALUES: SectionPolicy(Risk.HIGH, False, "Its priorities when goals conflict."),
    Section.PROTOCOLS: SectionPolicy(Risk.LOW, True, "Its way of working: habits, checklists, styles of answering."),
    Section.PREFERENCES: SectionPolicy(Risk.LOW, True, "Its knowledge about the people it serves."),
    Section.BOUNDARIES: SectionPolicy(
        Risk.HIGH, False, "Its limits: actions that are forbidden, and when it must stop and ask."
    ),
    Section.ENVIRONMENT: SectionPolicy(Risk.MEDIUM, False, "Where it runs and what it can access. Optional."),
}

MAX_SECTION_CHARACTERS = 20_000
MAX_REASON_CHARACTERS = 2_000


SECTION_PRIORITY: dict[str, int] = {
    name: place
    for place, name in enumerate(
        (
            Section.BOUNDARIES,
            Section.CHARACTER,
            Section.VALUES,
            Section.PROTOCOLS,
            Section.PREFERENCES,
            Section.ENVIRONMENT,
        )
    )
}
"""The order in which sections of an identity are included if the budget is short: its boundaries first, since they
protect others."""


LARGE_CHANGE = 1_000
"""From this many characters of added or removed lines on, the risk of a change rises by one step; from `HUGE_CHANGE`
on, by two."""
HUGE_CHANGE = 4_000


def change_size(before: str, after: str) -> int:
    """The characters of the lines that come or go, in whichever order they stand."""
    old, new = Counter(before.split("\n")), Counter(after.split("\n"))
    return sum(len(line) for line in ((old - new) + (new - old)).elements())


def change_risk(section: str, before: str, after: str) -> Risk:
    """The risk of a change: that of its section, raised where more changes than a person takes in at a glance."""
    size = change_size(before, after)
    steps = (size >= LARGE_CHANGE) + (size >= HUGE_CHANGE)
    ladder = [Risk.LOW, Risk.MEDIUM, Risk.HIGH]
    return ladder[min(ladder.index(SECTION_POLICY[section].risk) + steps, 2)]


LABELS = {section.value: section.label for section in Section}


def assemble_prompt(sections: Mapping[str, str], *, level: int = 2) -> str:
    """Render `sections` (name to text) under headings of `level`, in the fixed order, without the empty ones.

    No section gives "". Headings inside a text can never stand level with the sections' own.
    Raises Invalid for an unknown section. Source: seed 008, A2.
    """
    for name in sections:
        section_check(name)
    marks = "#" * level
    parts = [
        f"{marks} {LABELS[name]}\n{fence_block(sections[name], level=level)}"
        for name in SECTION_NAMES
        if sections.get(name, "").strip()
    ]
    return "\n\n".join(parts)


# Seed 008: "Max 1 identity update per day", counted over a sliding day so that midnight gives no second one.
AGENT_UPDATES_PER_WINDOW = 1
AGENT_UPDATE_WINDOW = timedelta(days=1)

MAX_PENDING_PROPOSALS_PER_TOKEN = 20
MAX_PROPOSALS_PER_TOKEN_AND_DAY = 50
PROPOSAL_WINDOW = timedelta(days=1)
REJECTION_STANDS = timedelta(days=30)
"""For this time, an agent cannot propose a text again that people rejected or reverted."""
