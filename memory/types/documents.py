"""The memory type of documents: each version is a row, and only the active one is searched."""

import re
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from memory.models import Document, ItemType
from memory.policy.size_limits import MAX_DOCUMENT_CHARACTERS
from memory.types.index_entry import IndexEntry, store_entry
from memory.types.memory_type import MemoryType
from nousweb.lib.json_texts import json_texts

_STEP = re.compile(r"([^.\[\]]+)|\[(\*|\d+)\]")
_SUBJECT_CHARACTERS = 200
_NAME_CHARACTERS = 100
"""Of the path to a part so many, the last, are its name."""


def _entry(document: Document) -> IndexEntry:
    named = store_entry(
        document, ItemType.DOCUMENT, document.text or document.key, kind="document", subject=_name(document)
    )
    if document.text:
        return named
    # What is not to be searched has a row that no search finds.
    return store_entry(document, ItemType.DOCUMENT, document.key, kind="document", active=False, retired_at=None)


def _name(document: Document) -> str:
    """The key where it says something: one that a program drew does not."""
    try:
        UUID(document.key)
    except ValueError:
        return document.key[:_SUBJECT_CHARACTERS]
    return ""


def _text(document: Document) -> str:
    return document.text


def document_text(value: Any, fields: Sequence[str] | None) -> str:
    """What search and prompts read of a value: the parts that `fields` name ("title", "notes[*].text", "$" for all).

    A single text stands for itself; of several parts each has its name in front.
    """
    parts: list[tuple[str, str]] = []
    for field in ["$"] if fields is None else fields:
        found = [("", value)] if field in ("$", "") else [(field, part) for part in _at(value, _STEP.findall(field))]
        for name, part in found:
            parts.extend(_leaves(name, part))
    if len(parts) == 1:
        return parts[0][1]
    # Names repeat, so many short parts may say more than the value holds.
    return "\n".join(f"{name}: {said}" if name else said for name, said in parts)[:MAX_DOCUMENT_CHARACTERS]


def _at(value: Any, steps: Sequence[tuple[str, str]]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    (name, place), rest = steps[0], steps[1:]
    if name and isinstance(value, dict) and name in value:
        yield from _at(value[name], rest)
    elif place == "*" and isinstance(value, list):
        for part in value:
            yield from _at(part, rest)
    elif place.isdecimal() and isinstance(value, list) and int(place) < len(value):
        yield from _at(value[int(place)], rest)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The texts, numbers and the like in a value, each with the path to it."""
    if isinstance(value, dict):
        for key, part in sorted(value.items()):
            yield from _leaves(f"{name}.{key}"[-_NAME_CHARACTERS:] if name else key[-_NAME_CHARACTERS:], part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(name, part)
    elif value is not None and (said := _said(value)):
        yield name, said


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip()


def _words(document: Document) -> tuple[str, ...]:
    """What search reads, and then all of the value."""
    return (*document.namespace, document.key, document.text, *json_texts(document.value), *document.tags)


DOCUMENT = MemoryType(
    ItemType.DOCUMENT,
    Document,
    _entry,
    _text,
    text_sql="text",
    words=_words,
    about=("namespace", "key", "version"),
    tokens_may=("view", "add"),
)
