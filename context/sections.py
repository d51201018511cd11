"""Loads what each section of a prompt may show."""

from django.conf import settings

from context.assembly import FixedSection, Item
from context.budget import ContextBudget
from identity.models import Agent, IdentityVersion
from identity.policy import Section as IdentitySection
from identity.prompt import assemble_prompt
from memory.models import Fact
from nousweb.lib.fencing import fence_line

# More could never fit the budget, and the load stays bounded whatever an agent has stored.
PROFILE_FACTS_LOADED = 100

IDENTITY_PRIORITY: dict[str, int] = {
    name: place
    for place, name in enumerate(
        (
            IdentitySection.BOUNDARIES,
            IdentitySection.CHARACTER,
            IdentitySection.VALUES,
            IdentitySection.PROTOCOLS,
            IdentitySection.PREFERENCES,
            IdentitySection.ENVIRONMENT,
        )
    )
}
"""What an identity keeps when its budget is short: its limits first, since they protect others."""


def identity_section(agent: Agent, budget: ContextBudget) -> FixedSection:
    """Tier 1: who the agent is, a piece a section; the environment's prompt while there is no identity."""
    versions = IdentityVersion.objects.current().filter(agent=agent).in_prompt_order()
    items = [
        Item("identity", f"{version.section}:{version.version}", text, IDENTITY_PRIORITY[version.section])
        for version in versions
        if (text := assemble_prompt({version.section: version.content}, level=3))
    ]
    if not items and settings.IDENTITY_PROMPT:
        text = assemble_prompt({IdentitySection.CHARACTER: settings.IDENTITY_PROMPT}, level=3)
        items = [Item("identity", "environment", text)]
    return FixedSection("identity", "Identity", 1, budget.of("identity"), items, divisible=True, separator="\n\n")


def profile_section(agent: Agent, persona: str, budget: ContextBudget) -> FixedSection:
    """Tier 1: person, preference and rule facts, surest first, without any search. Source: seed 008, B2."""
    facts = Fact.objects.active().profile().filter(agent=agent, persona=persona).surest_first()
    items = [
        Item(
            "fact",
            str(fact_id),
            f"- [{fence_line(subject)}] {fence_line(content)}" if subject else f"- {fence_line(content)}",
        )
        for fact_id, subject, content in facts.values_list("id", "subject", "content")[:PROFILE_FACTS_LOADED]
    ]
    return FixedSection("user_profile", "User Profile", 1, budget.of("user_profile"), items)
