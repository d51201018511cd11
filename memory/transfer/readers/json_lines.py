"""JSON Lines of our own, for whoever writes a file by a script: a fact, an event or a proposal a line."""

from collections.abc import Iterator
from typing import Any

from memory.layers.event_validation import EVENT_FIELDS
from memory.services.facts.changes import FACT_FIELDS, TIME_FIELDS
from memory.transfer.json_stream import BadEntry, Record, list_check, moment_get, text_get, value_get
from memory.transfer.readers.entry import EVENT, FACT, IDENTITY, Entry, Format, ReadOptions, content_id

FIELDS: dict[str, frozenset[str]] = {
    FACT: frozenset({"content", "origin", *FACT_FIELDS, *TIME_FIELDS}),
    EVENT: EVENT_FIELDS - {"key"},
    IDENTITY: frozenset({"section", "content", "reason"}),
}
"""What a line may say besides `record` and `id`: the fields of POST /api/facts, /api/events and of a proposal."""
MOMENTS = ("valid_from", "valid_until", "expires_at", "ts")
NUMBERS = ("confidence", "importance")


def _entries(record: Record, options: ReadOptions) -> Iterator[Entry]:
    place = record.place
    kind = text_get(record.value, "record", place)
    if kind not in FIELDS:
        raise BadEntry(place, f"record is one of {', '.join(FIELDS)}, not {kind[:40]!r}.")
    given = {name: value for name, value in record.value.items() if name not in ("record", "id")}
    if unknown := sorted(given.keys() - FIELDS[kind]):
        raise BadEntry(place, f"a field is not known: {unknown[0][:60]!r}.")
    text_get(record.value, "content", place)
    fields = {name: _typed(given, name, place) for name, value in given.items() if value is not None}
    if kind == EVENT:
        fields.setdefault("loop_id", "import")
    if kind == IDENTITY:
        text_get(given, "section", place)
    source_id = text_get(record.value, "id", place, default="") or content_id(kind, given)
    yield Entry(kind, place, source_id, "", fields)


def _typed(given: dict[str, Any], name: str, place: str) -> Any:
    value = given[name]
    if name in MOMENTS:
        return moment_get(place, value)
    if name in NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadEntry(place, f"{name} is not a number.")
        return float(value)
    if name == "tags":
        list_check(f"{place}: tags", value)
        if not all(isinstance(tag, str) for tag in value):
            raise BadEntry(place, "tags are texts.")
        return value
    return value_get(given, name, place) if name in ("metadata", "source_ref") else text_get(given, name, place)


FORMAT = Format("nous", "JSON Lines", (), lambda record: record.get("record") in FIELDS, _entries)
