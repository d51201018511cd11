"""Reads of memory that other apps use."""

from collections.abc import Mapping, Sequence

from identity.models import Agent, Persona
from memory.models import Fact
from memory.policy import PROFILE_CATEGORIES

PROFILE_SEED_LIMIT = 50


def profile_texts(agent: Agent) -> Mapping[str, Sequence[str]]:
    """The actor's active profile facts as texts by category, surest first, at most 50 of each."""
    found: dict[str, list[str]] = {category: [] for category in PROFILE_CATEGORIES}
    facts = Fact.objects.active().profile().filter(agent=agent, persona=Persona.ACTOR).surest_first()
    for category, content in facts.values_list("category", "content"):
        if len(found[category]) < PROFILE_SEED_LIMIT:
            found[category].append(content)
    return found
