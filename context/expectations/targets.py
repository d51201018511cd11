"""The memories that requirements name, as they are now: what they say, and whether any prompt could hold them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from context.models import Expectation
from memory.persona import PersonaMemory
from memory.types import MEMORY_TYPES

Key = tuple[str, str]
"""Type and id."""


@dataclass(frozen=True, slots=True)
class TargetMemory:
    """A memory that is there, active or not. `successor` is the id of what replaced it; `subject` that of a fact."""

    content: str
    active: bool = True
    subject: str = ""
    successor: str = ""
    invalid: bool = False


def targets_load(view: PersonaMemory, expectations: Iterable[Expectation]) -> dict[Key, TargetMemory]:
    """What the expectations are about, read through the view; what is erased, or was never there, is missing."""
    wanted: dict[str, set[str]] = {}
    for one in expectations:
        if one.target == Expectation.Target.MEMORY:
            wanted.setdefault(one.item_type, set()).add(one.item_id)
    found: dict[Key, TargetMemory] = {}
    for item_type, ids in wanted.items():
        own = MEMORY_TYPES.get(item_type)
        if own is not None:
            rows = view.rows(own.model).filter(pk__in=ids)
            found |= {(item_type, str(row.pk)): _target(row, own.text(row)) for row in rows}
    return found


def _target(row: Any, content: str) -> TargetMemory:
    successor = getattr(row, "superseded_by_id", None)
    return TargetMemory(
        content,
        getattr(row, "active", True),
        getattr(row, "subject", ""),
        str(successor or ""),
        getattr(row, "invalidated_at", None) is not None,
    )


def subjects_load(view: PersonaMemory, fact_ids: Iterable[str]) -> Mapping[str, str]:
    """Subjects by the ids of facts."""
    rows = view.facts.filter(pk__in=fact_ids).values_list("pk", "subject", "subject_alias__subject__name")
    return {str(key): name or subject for key, subject, name in rows}
