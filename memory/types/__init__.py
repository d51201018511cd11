"""The types of memory that are searched, as the files of this folder declare them.

Index, search, historical views, erasure, export, rights and the API derive from `MEMORY_TYPES`. How prompts show a
type is declared in `context/engine/section_budgets.py`, its pages in
`nousweb/console/common/memory_types.py`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

from memory.models import ItemType
from memory.types.memory_type import MAX_TEXT_CHARACTERS, IndexEntry, MemoryType
from nousweb.lib.json_texts import json_texts

_DECLARED = {
    declared.key: declared
    for module in iter_modules(__path__)
    for declared in vars(import_module(f"{__name__}.{module.name}")).values()
    if isinstance(declared, MemoryType)
}
MEMORY_TYPES: Mapping[str, MemoryType] = MappingProxyType({key: _DECLARED[ItemType(key)] for key in ItemType.values})
"""By key, in the order of `ItemType`."""

_BY_INDEXED_MODEL = {
    memory_type.indexed_model or memory_type.model: memory_type for memory_type in MEMORY_TYPES.values()
}
_BY_MODEL = {memory_type.model: memory_type for memory_type in MEMORY_TYPES.values()}


def entry_of(memory: Any) -> IndexEntry:
    """Build the index row of a memory. For an event, `memory` is its long-term entry."""
    entry = _BY_INDEXED_MODEL[type(memory)].entry(memory)
    return replace(entry, text=entry.text[:MAX_TEXT_CHARACTERS]) if len(entry.text) > MAX_TEXT_CHARACTERS else entry


def prompt_text(memory: Any) -> str:
    """The text of a memory in a prompt; "" if it has none."""
    return _BY_MODEL[type(memory)].text(memory)


def all_texts(memory: Any) -> Iterator[str]:
    """All texts that a reader of the memory gets."""
    for name in _BY_MODEL[type(memory)].words:
        yield from json_texts(getattr(memory, name))
