"""Read the file of an exported agent: its header, and its rows, whose shape is checked before any is stored."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db import models

from memory.models import Event
from memory.transfer.export_tables import (
    AGENT_FIELDS,
    AUDIT_TABLE,
    FORMAT,
    LATER,
    RENAMED,
    RENAMED_IN,
    TABLES,
    VERSION,
    columns,
    table_name,
)
from memory.transfer.json_reader import BadJson, json_read
from memory.transfer.value_validation import BadLine, is_uuid

BATCH = 500
MODELS: dict[str, type[models.Model]] = {table_name(model): model for model in (*TABLES, AUDIT_TABLE)}
WORDS = {table_name(model): names for model, names in RENAMED_IN.items()}
PLACES = {name: place for place, name in enumerate(MODELS)}


def agent_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of the file with their numbers. Raises BadLine for one that is no object of JSON."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = json_read(raw)
            except BadJson as error:
                raise BadLine(number, error.why) from error
            if not isinstance(line, dict):
                raise BadLine(number, "this is not an object.")
            if isinstance(row := line.get("row"), dict):
                ours = WORDS.get(str(line.get("table")), ())
                line["row"] = {
                    RENAMED.get(name, name): _renamed(value) if name in ours else value for name, value in row.items()
                }
            yield number, line


def _renamed(value: Any) -> Any:
    """The value of a column of our own words, with their present names."""
    if isinstance(value, dict):
        return {RENAMED.get(key, key): inner for key, inner in value.items()}
    return RENAMED.get(value, value) if isinstance(value, str) else value


def agent_survey(path: Path) -> tuple[dict[str, Any], dict[str, int], dict[str, set[str]]]:
    """The header, the rows by table, and the UUIDs by table, of a file that is whole."""
    lines = agent_lines(path)
    number, first = next(lines, (1, {}))
    header = first.get("agent")
    if first.get("format") != FORMAT or not isinstance(header, dict) or set(header) != set(AGENT_FIELDS):
        raise BadLine(number, "this is not the beginning of an exported agent.")
    if first.get("version") != VERSION:
        raise BadLine(number, f"version {first.get('version')!r} of the format is not known; this reads {VERSION}.")
    counts: dict[str, int] = {}
    ids: dict[str, set[str]] = {}
    place, end = 0, None
    for number, line in lines:
        if end is not None:
            raise BadLine(number, "there is more after the end.")
        if set(line) == {"end"}:
            end = line["end"]
            continue
        name, row = line.get("table"), line.get("row")
        if not isinstance(name, str) or name not in MODELS or not isinstance(row, dict) or len(line) != 2:
            raise BadLine(number, f"this is no row of a known table: {str(name)[:60]!r}.")
        if PLACES[name] < place:
            raise BadLine(number, f"rows of {name} come too late.")
        place = PLACES[name]
        wanted = {column.attname for column in columns(MODELS[name])}
        row = {**{column: held for (model, column), held in LATER.items() if model is MODELS[name]}, **row}
        if set(row) != wanted:
            differing = sorted(set(row) ^ wanted)
            raise BadLine(number, f"a row of {name} lacks or adds {', '.join(differing)[:200]}.")
        counts[name] = counts.get(name, 0) + 1
        if isinstance(row.get("id"), str) and MODELS[name] is not Event:
            if not is_uuid(row["id"]):
                raise BadLine(number, "id: is a UUID, written in small letters with hyphens")
            if row["id"] in ids.setdefault(name, set()):
                raise BadLine(number, f"{name} {row['id'][:60]} is there twice.")
            ids[name].add(row["id"])
    if not isinstance(end, dict):
        raise BadLine(number, "the file ends too early; its last line counts the rows.")
    if {name: count for name, count in end.items() if count} != counts:
        raise BadLine(number, "the rows are not as many as the last line says.")
    return header, counts, ids


def row_batches(path: Path) -> Iterator[tuple[type[models.Model], list[tuple[int, dict[str, Any]]]]]:
    """The rows of the file with their line numbers, of one table at a time."""
    name = ""
    batch: list[tuple[int, dict[str, Any]]] = []
    for number, line in agent_lines(path):
        if "table" not in line:
            continue
        if batch and (line["table"] != name or len(batch) >= BATCH):
            yield MODELS[name], batch
            batch = []
        name = line["table"]
        batch.append((number, line["row"]))
    if batch:
        yield MODELS[name], batch
