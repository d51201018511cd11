"""Who an agent may become, and who decides: the sections, their risk and the guardrails, declared as data.

Source: seed 008, part A and "Self-Evolution Guardrails".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db import models


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


@dataclass(frozen=True, slots=True)
class SectionPolicy:
    """Guardrail of one section: its risk, whether the agent may apply a change itself, what it is for."""

    risk: Risk
    agent_may_apply: bool
    purpose: str


SECTION_POLICY: dict[str, SectionPolicy] = {
    Section.CHARACTER: SectionPolicy(Risk.HIGH, False, "Who the agent is: role, voice, temperament."),
    Section.VALUES: SectionPolicy(Risk.HIGH, False, "What it puts first when goals pull apart."),
    Section.PROTOCOLS: SectionPolicy(Risk.LOW, True, "How it works: habits, checklists, ways of answering."),
    Section.PREFERENCES: SectionPolicy(Risk.LOW, True, "What it has learned about the people it serves."),
    Section.BOUNDARIES: SectionPolicy(Risk.HIGH, False, "What it must never do, and when it must stop and ask."),
    Section.ENVIRONMENT: SectionPolicy(Risk.MEDIUM, False, "Where it runs and what it can reach. Optional."),
}

MAX_SECTION_CHARACTERS = 20_000
MAX_REASON_CHARACTERS = 2_000

# Seed 008: "Max 1 identity update per day", counted over a sliding day so that midnight gives no second one.
AGENT_UPDATES_PER_WINDOW = 1
AGENT_UPDATE_WINDOW = timedelta(days=1)

MAX_PENDING_PROPOSALS_PER_TOKEN = 20
MAX_PROPOSALS_PER_TOKEN_AND_DAY = 50
PROPOSAL_WINDOW = timedelta(days=1)
REJECTION_STANDS = timedelta(days=30)
"""So long what people turned down or took back is not proposed again by an agent in the same words."""

SCOPE_PERMISSIONS: dict[str, frozenset[str]] = {
    "identity:read": frozenset(
        {"identity.view_agent", "identity.view_identityversion", "identity.view_changeproposal"}
    ),
    "identity:propose": frozenset({"identity.propose_changeproposal"}),
    "memory:read": frozenset(
        {
            "memory.view_censor",
            "memory.view_workingmemory",
            "memory.view_searchitem",
            "memory.view_memoryreview",
            "memory.view_job",
        }
    ),
    "memory:write": frozenset(
        {
            "memory.add_censor",
            "memory.trigger_censor",
            "memory.change_workingmemory",
        }
    ),
    "memory:rules": frozenset({"memory.add_rule_fact"}),
    "context:read": frozenset({"context.assemble_context", "context.report_context"}),
    "expectations:run": frozenset({"context.view_expectation", "context.run_expectation"}),
}
"""What each scope of an agent's token allows. No scope holds, or may ever hold, a right to approve.

Each type of memory adds what tokens may do with it (`tokens_may` in `memory/types/`) by `scope_extend`.
"""


def scope_extend(scope: str, permissions: Iterable[str]) -> None:
    """Let tokens with `scope` do more: once, while the apps are set up. Raises ValueError for what only people may."""
    added = frozenset(permissions)
    if kept := added & PEOPLE_ONLY_PERMISSIONS:
        raise ValueError(f"Only people may hold {', '.join(sorted(kept))}.")
    SCOPE_PERMISSIONS[scope] |= added


DEFAULT_SCOPES = ("identity:read", "identity:propose", "memory:read", "memory:write", "context:read")

VIEW_SUBCONSCIOUS = "memory.view_subconscious"
"""The right of people to see what belongs to an agent's subconscious, in records, lists and counts too."""

ACTIONS_OF_BOTH_PERSONAS = frozenset({"agent.erase", "agent.import", "subject.erase", "index.retry"})
"""Actions whose audit records count rows of both personas: everybody may know of them, not everybody of the figures."""

PEOPLE_ONLY_PERMISSIONS = frozenset(
    {
        "identity.review_changeproposal",
        "identity.reinitiate_agent",
        "identity.add_agent",
        "identity.change_agent",
        "identity.view_auditevent",
        "identity.manage_webhook",
        "identity.view_apitoken",
        "identity.add_apitoken",
        "identity.revoke_apitoken",
        "memory.change_fact",
        "memory.change_censor",
        "memory.review_memory",
        "memory.change_job",
        VIEW_SUBCONSCIOUS,
        "memory.erase_memory",
        "context.add_expectation",
        "context.change_expectation",
    }
)
"""Rights that only a signed-in person can hold, whatever a token's scopes say."""

APPROVING_PERMISSIONS = frozenset({"identity.review_changeproposal", "memory.review_memory"})
"""Of these not even the product itself makes use: what waits for a person is answered by a person."""
