"""Provenance of imported entries: their keys, by which a later import recognises them, and the rows that store it."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db import models

from identity.models import Agent
from memory.models import ImportedMemory
from memory.transfer.import_dry_run import ImportRequest
from memory.transfer.json_values import place_shown
from memory.transfer.readers.entry import FACT, Entry, content_id
from nousweb.lib import DomainError, is_blank

MAX_ID_CHARACTERS = 300
MAX_FILE_CHARACTERS = 255
MAX_SOURCE_CHARACTERS = 200
PLACE = re.compile(r"(?:events|facts)\[(\d+)\]\.?")
"""What a service puts before its refusal of one of several."""


@dataclass(frozen=True, slots=True)
class KeyedEntry:
    """An entry with the key and the hash of its content by which it is known again."""

    entry: Entry
    key: str
    content_hash: str


def keyed_batches(entries: Iterator[Entry], size: int) -> Iterator[list[KeyedEntry]]:
    """Entries with their keys, so many at a time, each key once in a batch."""
    batch: dict[str, KeyedEntry] = {}
    for entry in entries:
        key = hashlib.sha256(f"{entry.kind}\0{entry.source_id}".encode()).hexdigest()
        content_hash = content_id(entry.fields["content"], entry.fields.get("section"))
        if key in batch or len(batch) >= size:
            yield list(batch.values())
            batch = {}
        batch[key] = KeyedEntry(entry, key, content_hash)
    if batch:
        yield list(batch.values())


def imported_hashes(agent: Agent, request: ImportRequest, batch: Sequence[KeyedEntry]) -> dict[str, str]:
    """The digests of those that were imported before, by key; "" of what was erased since."""
    return dict(provenance_of(agent, request, batch).values_list("key", "content_hash"))


def is_new(one: KeyedEntry, content_hash: str | None) -> bool:
    """Whether it has to be stored: what is not known, and facts that say something else than they did."""
    return content_hash is None or (one.entry.kind == FACT and content_hash not in ("", one.content_hash))


def source_text(request: ImportRequest, one: KeyedEntry) -> str:
    """The `source` of an imported fact."""
    given: str = one.entry.fields.get("source", "")
    return given or f"{request.format} {one.entry.source_id}"[:MAX_SOURCE_CHARACTERS]


def provenance_put(rows: Sequence[ImportedMemory]) -> None:
    ImportedMemory.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["agent", "persona", "system", "key"],
        update_fields=[
            "source_id", "content_hash", "item_type", "item_id", "earlier_item_ids", "outcome", "file", "imported_at",
        ],
    )  # fmt: skip


def provenance_of(agent: Agent, request: ImportRequest, batch: Sequence[KeyedEntry]) -> models.QuerySet[ImportedMemory]:
    return ImportedMemory.objects.filter(
        agent=agent, persona=request.persona, system=request.format, key__in=[one.key for one in batch]
    )


def provenance_draft(
    agent: Agent, request: ImportRequest, one: KeyedEntry, item_type: str, item_id: str, outcome: str
) -> ImportedMemory:
    shown = one.entry.source_id[:MAX_ID_CHARACTERS]
    return ImportedMemory(
        agent=agent,
        persona=request.persona,
        system=request.format,
        key=one.key,
        source_id="" if is_blank(shown) else shown,
        content_hash=one.content_hash,
        item_type=item_type,
        item_id=item_id,
        outcome=outcome,
        file=file_name(request),
    )


def file_name(request: ImportRequest) -> str:
    return (request.name or request.path.name)[-MAX_FILE_CHARACTERS:]


def named_entry(detail: str, batch: Sequence[KeyedEntry]) -> KeyedEntry:
    """The entry that a refusal names as `events[i]` or `facts[i]`; the first one where it names none."""
    named = PLACE.match(detail)
    place = int(named[1]) if named else 0
    return batch[place] if place < len(batch) else batch[0]


def placed_error(error: DomainError, one: KeyedEntry) -> DomainError:
    """The refusal with the entry's place in the file."""
    return type(error)(f"{place_shown(one.entry.place)}: {PLACE.sub('', error.detail, count=1)}", **error.extra)
