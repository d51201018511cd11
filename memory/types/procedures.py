"""The memory type of procedures; of each use only the counter is recorded."""

from collections.abc import Mapping
from typing import Any

from memory.models import ItemType, Procedure
from memory.types.index_entry import IndexEntry, lines, store_entry
from memory.types.memory_type import MemoryType

COUNTERS = ("activation_count", "success_count", "failure_count")


def _entry(procedure: Procedure) -> IndexEntry:
    text = lines(procedure.name, procedure.description, *procedure.steps)
    return store_entry(procedure, ItemType.PROCEDURE, text, kind="procedure", category=procedure.domain)


def _text(procedure: Procedure) -> str:
    """The procedure as it is read: its steps are numbered, and further lines of a step are indented."""
    steps = enumerate(filter(None, procedure.steps), 1)
    numbered = (f"{number}. {step}".replace("\n", "\n   ") for number, step in steps)
    return lines(procedure.name, procedure.description, *numbered)


def _undo_change(procedure: Procedure, action: str, after: Mapping[str, Any]) -> Mapping[str, Any]:
    if action not in ("procedure.activate", "procedure.report"):
        return {}
    return {name: max(after[name] - 1, 0) for name in COUNTERS if isinstance(after.get(name), int)}


def _words(procedure: Procedure) -> tuple[str, ...]:
    return (procedure.name, procedure.description, *procedure.steps, *procedure.tags)


PROCEDURE = MemoryType(
    ItemType.PROCEDURE,
    Procedure,
    _entry,
    _text,
    text_sql="concat_ws(E'\\n', nullif(name, ''), nullif(description, ''),"
    " (SELECT string_agg(replace(number || '. ' || step, E'\\n', E'\\n   '), E'\\n' ORDER BY number)"
    " FROM unnest(array_remove(steps, '')) WITH ORDINALITY AS numbered (step, number)))",
    words=_words,
    about=("name", "domain", "steps", "effectiveness"),
    about_sql={"effectiveness": "success_count / nullif(success_count + failure_count, 0)::float8"},
    undo_change=_undo_change,
)
