"""The memory type of decisions; their outcome is known from their review on."""

from collections.abc import Collection
from datetime import datetime

from memory.models import Decision, ItemType
from memory.types.index_entry import IndexEntry, lines, store_entry
from memory.types.memory_type import MemoryType


def _entry(decision: Decision) -> IndexEntry:
    return store_entry(
        decision,
        ItemType.DECISION,
        lines(decision.description, *decision.reasons, decision.outcome_note),
        kind="decision",
        category=decision.category,
    )


def _text(decision: Decision) -> str:
    return decision.description


def _restore_as_of(decision: Decision, moment: datetime, undone: Collection[str]) -> None:
    """A review that has a date never shows before it, whatever the trail lacks."""
    if decision.reviewed_at is not None and decision.reviewed_at > moment:
        decision.reviewed_at = None
        if "decision.review" not in undone:
            decision.outcome, decision.outcome_note, decision.reviewed_by = Decision.Outcome.PENDING, "", ""


def _words(decision: Decision) -> tuple[str, ...]:
    return (decision.description, decision.context, *decision.reasons, decision.outcome_note, *decision.tags)


DECISION = MemoryType(
    ItemType.DECISION,
    Decision,
    _entry,
    _text,
    text_sql="description",
    words=_words,
    about=("category", "confidence", "stakes", "reasons", "outcome", "outcome_note"),
    restore_as_of=_restore_as_of,
)
