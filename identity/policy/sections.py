"""Sections of an identity, their risk and the guardrails, declared as data.

Source: seed 008, part A and "Self-Evolution Guardrails".
"""

from dataclasses import dataclass

from django.db import models

from nousweb.lib.errors import Invalid


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
