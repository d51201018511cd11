"""The types of memory that are searched, each declared in a file of its own.

Index, search, historical views, erasure, export, rights and the API derive from `MEMORY_TYPES`. How prompts show a
type is declared in `context/engine/section_budgets.py`, its pages in
`nousweb/console/common/memory_types.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from memory.models import ItemType
from memory.types.decisions import DECISION
from memory.types.documents import DOCUMENT
from memory.types.episodes import EPISODE
from memory.types.events import EVENT
from memory.types.facts import FACT
from memory.types.index_entry import MAX_TEXT_CHARACTERS, IndexEntry
from memory.types.memory_type import MemoryType
from memory.types.procedures import PROCEDURE

MEMORY_TYPES: Mapping[str, MemoryType] = MappingProxyType(
    {one.key.value: one for one in (EVENT, FACT, EPISODE, PROCEDURE, DECISION, DOCUMENT)}
)
"""By key, in the order of `ItemType`."""
assert list(MEMORY_TYPES) == ItemType.values  # noqa: S101

_BY_INDEXED_MODEL = {one.indexed_model or one.model: one for one in MEMORY_TYPES.values()}
_BY_MODEL = {one.model: one for one in MEMORY_TYPES.values()}


def entry_of(memory: Any) -> IndexEntry:
    """Build the index row of a memory. For an event, `memory` is its long-term entry."""
    entry = _BY_INDEXED_MODEL[type(memory)].entry(memory)
    return replace(entry, text=entry.text[:MAX_TEXT_CHARACTERS]) if len(entry.text) > MAX_TEXT_CHARACTERS else entry


def prompt_text(memory: Any) -> str:
    """The text of a memory in a prompt; "" if it has none."""
    return _BY_MODEL[type(memory)].text(memory)


def all_texts(memory: Any) -> Iterable[str]:
    """All texts that a reader of the memory gets."""
    return _BY_MODEL[type(memory)].words(memory)
