"""One row of the search index before its embedding, as a type of memory builds it from a row of its own."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memory.models import ItemType, Scope, Trust
from memory.models.project_scope import tier_of

MAX_TEXT_CHARACTERS = 20_000
"""Indexed of one memory; embedding models read less still."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One row of the index, before its embedding. `text` is what is searched and embedded, `standing` whether it is
    to be kept to (memory.types.standing_instructions)."""

    agent_id: int
    persona: str
    item_type: str
    item_id: str
    text: str
    happened_at: datetime
    recorded_at: datetime
    kind: str = ""
    category: str = ""
    scope: str = Scope.GLOBAL
    project: str = ""
    task: str = ""
    subject: str = ""
    loop_id: str = ""
    position: int = 0
    tags: list[str] = field(default_factory=list)
    importance: float = 0.5
    active: bool = True
    retired_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    standing: str = ""
    trust: str = Trust.AGENT
    held: bool = False


KEPT_ELSEWHERE = frozenset({"trust", "held"})
"""Fields that are no columns of the index: quarantined memories have no row, and trust is read from the memory."""


def store_entry(memory: Any, item_type: ItemType, text: str, **own: Any) -> IndexEntry:
    """The row of a memory of a store, with what all that carry keys have in common; `own` are columns of its type."""
    common: dict[str, Any] = {
        "happened_at": memory.created_at,
        "recorded_at": memory.created_at,
        "scope": tier_of(memory.scope, memory.project, memory.task),
        "project": memory.project,
        "task": memory.task,
        "tags": memory.tags,
        "importance": memory.importance,
        "active": memory.active,
        "retired_at": memory.retired_at,
        "trust": memory.trust,
        "held": memory.held,
    }
    return IndexEntry(
        agent_id=memory.agent_id,
        persona=memory.persona,
        item_type=item_type,
        item_id=str(memory.pk),
        text=text,
        **{**common, **own},
    )


def lines(*parts: str) -> str:
    """The parts that say something, one below the other."""
    return "\n".join(part for part in parts if part)
