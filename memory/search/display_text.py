"""What search shows of each memory: its words, and what describes it."""

from typing import Any

from memory.models import Decision, Episode, Fact, ItemType, Procedure

ABOUT: dict[str, tuple[str, ...]] = {
    ItemType.FACT: ("subject", "category", "kind", "confidence", "source", "valid_from", "valid_until"),
    ItemType.EPISODE: ("title", "outcome", "lessons", "started_at", "ended_at"),
    ItemType.PROCEDURE: ("name", "domain", "steps", "effectiveness"),
    ItemType.DECISION: ("category", "confidence", "stakes", "reasons", "outcome", "outcome_note"),
}
"""By type the attributes that describe a memory, which are its metadata."""


def words_of(memory: Fact | Episode | Procedure | Decision) -> str:
    """What a prompt says of a memory; "" when there is nothing to say."""
    if isinstance(memory, Fact):
        return memory.content
    if isinstance(memory, Decision):
        return memory.description
    if isinstance(memory, Episode):
        return "\n".join(part for part in (memory.title, memory.summary or memory.detail) if part)
    return "\n".join(part for part in (memory.name, memory.description, *memory.steps) if part)


def about(item_type: str, memory: object) -> dict[str, Any]:
    """The metadata of a memory."""
    return {name: getattr(memory, name) for name in ABOUT[item_type]}
