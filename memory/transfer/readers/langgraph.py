"""LangGraph: the items of a store (`BaseStore.search`), each as `item.dict()` writes it. An item is a fact.

Its words are those of its value, or the whole value as JSON; its namespace becomes tags. A value may name an
`attribute` with its `value` beside the words.
"""

import json
from collections.abc import Iterator
from typing import Any

from memory.transfer.json_stream import BadEntry, Record, text_get, value_get
from memory.transfer.readers.entry import FACT, Entry, Format, ReadOptions, skipped, source_moment, stated_of, tags_of

TEXTS = ("content", "text", "memory", "data")
"""Names under which a value keeps its words; LangMem nests one within the other."""


def _entries(record: Record, options: ReadOptions) -> Iterator[Entry]:
    place, item = record.place, record.value
    text_get(item, "key", place)
    # A row of the store's table in PostgreSQL calls it prefix, and joins its parts by full stops.
    namespace = item["prefix"] if "namespace" not in item and "prefix" in item else value_get(item, "namespace", place)
    if isinstance(namespace, str):
        namespace = namespace.split(".")
    if not isinstance(namespace, list) or not all(isinstance(part, str) for part in namespace):
        raise BadEntry(place, "namespace is no list of texts.")
    key = item["key"]
    value = value_get(item, "value", place)
    text = _words(value)
    if not text.strip():
        yield skipped(place, "an item without a value")
        return
    changed = source_moment(place, item.get("updated_at")) or source_moment(place, item.get("created_at"))
    owner = "/".join(namespace)
    fields = {"content": text, **_stated(value), "tags": tags_of(*namespace), "valid_from": changed}
    yield Entry(FACT, place, f"{owner}/{key}", owner, fields)


def _stated(value: Any) -> dict[str, str]:
    """The attribute and its value that a value names beside its words, or beside those nested in it."""
    name = next((name for name in TEXTS if name in value), None) if isinstance(value, dict) else None
    return (stated_of(value) or _stated(value[name])) if name else {}


def _words(value: Any) -> str:
    """The text of a value, or the whole value as JSON if it contains more."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if not value:
        return ""
    name = next((name for name in TEXTS if name in value), None)
    inner = value.get(name) if name else None
    others = value.keys() - {name, "kind", "type", "created_at", "updated_at", *_stated(value)}
    if name and not others and isinstance(inner, str | dict):
        return _words(inner)
    return json.dumps(value, ensure_ascii=False)


FORMAT = Format(
    "langgraph",
    "LangGraph",
    ("items",),
    lambda record: {"key", "value"} <= record.keys() and not record.keys().isdisjoint({"namespace", "prefix"}),
    _entries,
)
