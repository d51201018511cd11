"""Choice of a memory by search words, for forms."""

from identity.models import Agent
from identity.principal import Principal
from memory.models import ItemType
from memory.models.project_scope import EVERYTHING
from memory.persona import persona_memory
from memory.search import SearchRequest, search
from memory.types import MEMORY_TYPES
from nousweb.lib.constrained_types import MAX_QUERY_CHARACTERS

OFFERED = 8
SHOWN_CHARACTERS = 160


def memories_named(agent: Agent, persona: str, by: Principal, words: str) -> list[tuple[str, str]]:
    """The memories that fit `words` best and that `by` may see, each as "fact <id>" and its text."""
    types = [key for key, one in MEMORY_TYPES.items() if by.may(one.permission("view"))]
    if not words.strip() or not types:
        return []
    request = SearchRequest(words[:MAX_QUERY_CHARACTERS], EVERYTHING, types=types, limit=OFFERED)
    return [
        (f"{hit.type} {hit.id}", f"{ItemType(hit.type).label}: {hit.content[:SHOWN_CHARACTERS]}")
        for hit in search(persona_memory(agent, by, persona), request).items
    ]
