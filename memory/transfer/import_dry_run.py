"""Dry run of an import: open a file, plain or within a zip archive as chat providers send it, and say what it holds,
without storing anything; and the keys by which entries are known again.
"""

import hashlib
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from django.db import models
from django.utils.text import Truncator

from identity.models import Agent
from identity.policy.sections import SECTION_NAMES, section_check
from identity.principal import Principal
from identity.services.guardrails import section_text_check as identity_text_check
from memory.layers.event_validation import draft_check
from memory.models import KEYS, ImportedMemory, key_check, serves_users, user_write_check
from memory.policy import CATEGORY_PERMISSIONS, DEFAULT_CATEGORY
from memory.services.facts.changes import fact_fields_check
from memory.services.trust import origin_check
from memory.transfer.json_stream import BadEntry, Record, place_shown, printable, records_read
from memory.transfer.readers import FORMATS
from memory.transfer.readers.entry import (
    EVENT,
    FACT,
    IDENTITY,
    REFUSED,
    SKIPPED,
    Entry,
    ReadOptions,
    content_id,
    refused,
    skipped,
)
from memory.transfer.readers.letta import LEAVE_OUT
from nousweb.lib import Conflict, DomainError, Invalid, clock, is_blank

CONVERSATIONS = re.compile(r"(?:.*/)?conversations(?:-\d{1,6})?\.json")
"""What is read of an archive; large accounts get their conversations in several numbered files."""
MAX_ARCHIVE_ENTRIES = 100_000
MAX_UNPACKED_BYTES = 8 << 30
MAX_RATIO = 200
"""JSON packs to a tenth or a twentieth; what unpacks to more than this many times its size is no export."""
RATIO_FROM_BYTES = 32 << 20
ENCRYPTED = 0x1
ZIP = b"PK\x03\x04"
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


@dataclass(frozen=True, slots=True)
class Part:
    """One stream of JSON of the file, with what comes before and after it in bytes as a share of the whole."""

    name: str
    file: BinaryIO
    size: int
    before: int
    total: int

    def share(self, read: int) -> float:
        """The share of the whole file that has been read, 0 to 1, after `read` bytes of this part."""
        return min(self.before + read, self.total) / max(self.total, 1)


def parts_read(path: Path) -> Iterator[Part]:
    """The files to read of `path`, one after another. Raises BadEntry for an archive that is no export, or OSError."""
    with path.open("rb") as file:
        archived = file.read(len(ZIP)) == ZIP
        file.seek(0)
        if not archived:
            size = path.stat().st_size
            yield Part("", file, size, 0, size)
            return
    with _archive(path) as archive:
        found = [info for info in archive.infolist() if CONVERSATIONS.fullmatch(info.filename)]
        if not found:
            raise BadEntry("the archive", "there is no conversations.json in it.")
        found.sort(key=lambda info: info.filename)
        total = sum(info.file_size for info in found)
        for info in found:
            _bomb_check(info, total)
        before = 0
        for info in found:
            with archive.open(info) as member:
                yield Part(info.filename, cast(BinaryIO, _Bounded(member, info)), info.file_size, before, total)
            before += info.file_size


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > MAX_ARCHIVE_ENTRIES:
                raise BadEntry("the archive", f"it holds more than {MAX_ARCHIVE_ENTRIES:,} files.")
            yield archive
    except _UNREADABLE as error:
        raise BadEntry("the archive", f"it cannot be read: {error}.") from error


def _bomb_check(info: zipfile.ZipInfo, total: int) -> None:
    if info.flag_bits & ENCRYPTED:
        raise BadEntry(info.filename, "it is encrypted; unpack the archive first.")
    if total > MAX_UNPACKED_BYTES:
        raise BadEntry(info.filename, f"it unpacks to more than {MAX_UNPACKED_BYTES >> 30} GB.")
    if info.file_size > RATIO_FROM_BYTES and info.file_size > MAX_RATIO * max(info.compress_size, 1):
        raise BadEntry(info.filename, f"it unpacks to more than {MAX_RATIO} times its size, which no export does.")


class _Bounded(io.RawIOBase):
    """A member of an archive that gives no more than it announced."""

    def __init__(self, member: Any, info: zipfile.ZipInfo) -> None:
        self.member = member
        self.name = info.filename
        self.left = info.file_size

    def read(self, size: int = -1) -> bytes:
        try:
            raw: bytes = self.member.read(size)
        except _UNREADABLE as error:
            raise BadEntry(self.name, f"the archive cannot be read: {error}.") from error
        self.left -= len(raw)
        if self.left < 0:
            raise BadEntry(self.name, "it unpacks to more than it announces.")
        return raw


MAX_EXAMPLES = 3
MAX_REFUSALS = 20
"""Shown; all of them are counted."""
RECORDS_LOOKED_AT = 20
"""So many records may be unreadable before a format is recognised."""
EXAMPLE_CHARACTERS = 100
AGENT_EXPORT = "nous-agent"


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """The options of an import.

    `format` is one of FORMATS, or "" to recognise it. What comes belongs to `project`, `task` and `user`, facts to
    `category`, unless the file says otherwise. `only` leaves out what is not of this user, namespace, agent or
    conversation. `sections` are those of an identity by the label of a Letta block ("none" leaves a block out). With
    `skip_refused` what cannot be stored is left out, instead of refusing the file. `name` is what the file was called
    where it came from, if that is not its name here.
    """

    path: Path
    format: str = ""
    persona: str = "actor"
    project: str = ""
    task: str = ""
    user: str = ""
    category: str = DEFAULT_CATEGORY
    only: str = ""
    sections: Mapping[str, str] = field(default_factory=dict)
    skip_refused: bool = False
    name: str = ""


@dataclass(slots=True)
class Survey:
    """The result of a dry run: entries by kind, skipped and refused entries with reasons, and the first examples."""

    format: str
    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    refusals: list[str] = field(default_factory=list)
    examples: dict[str, list[str]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Entries that can be stored."""
        return self.counts.total()

    def add(self, entry: Entry) -> None:
        if entry.kind == SKIPPED:
            self.skipped[entry.why] += 1
        elif entry.kind == REFUSED:
            self.refused += 1
            if len(self.refusals) < MAX_REFUSALS:
                self.refusals.append(f"{place_shown(entry.place)}: {printable(entry.why)}")
        else:
            self.counts[entry.kind] += 1
            shown = self.examples.setdefault(entry.kind, [])
            if len(shown) < MAX_EXAMPLES:
                shown.append(f"{place_shown(entry.place)}: {printable(_short(entry))}")


def request_check(request: ImportRequest) -> ImportRequest:
    """The request with its format recognised and its choices checked. Raises Invalid, naming the field."""
    request = choices_check(request)
    return replace(request, format=request.format or format_find(request.path))


def choices_check(request: ImportRequest) -> ImportRequest:
    """The request with its choices checked; the file is not read. Raises Invalid, naming the field."""
    if request.persona not in ("actor", "subconscious"):
        raise Invalid("persona must be actor or subconscious.", field="persona")
    if request.format and request.format not in FORMATS:
        raise Invalid(f"format must be one of {', '.join(FORMATS)}.", field="format")
    if request.category in CATEGORY_PERMISSIONS:
        raise Invalid(
            f"category: imports cannot create a {request.category}: it affects every prompt. A person must write it.",
            field="category",
        )
    for label, section in request.sections.items():
        if section != LEAVE_OUT:
            section_check(section)
        if not label:
            raise Invalid(
                f"section names a block and one of {', '.join((*SECTION_NAMES, LEAVE_OUT))}.", field="section"
            )
    keys: dict[str, Any] = {name: key_check(name, getattr(request, name)) for name in KEYS}
    return replace(request, **keys)


def format_find(path: Path) -> str:
    """The format of a file, by the first of its records. Raises Invalid when none fits, BadEntry, or OSError."""
    lists = {name for one in FORMATS.values() for name in one.lists}
    for part in parts_read(path):
        for number, record in enumerate(records_read(part.file, lists)):
            value = record.value
            if isinstance(value, dict):
                if value.get("format") == AGENT_EXPORT:
                    raise BadEntry("line 1", "this is an exported agent; `nous importagent FILE` makes an agent of it.")
                for one in FORMATS.values():
                    if one.fits(value):
                        return one.name
            if number >= RECORDS_LOOKED_AT:
                break
    raise BadEntry("the file", f"its format is not recognised; name it: {', '.join(FORMATS)}.")


def entries_read(request: ImportRequest, *, agent: Agent, by: Principal) -> Iterator[tuple[Entry, float]]:
    """Every entry of the file, checked, with the share of the file that is read then."""
    reader = FORMATS[request.format]
    options = ReadOptions(request.persona, request.sections, serves_users=serves_users(agent))
    for part in parts_read(request.path):
        for record in records_read(part.file, reader.lists):
            share = part.share(record.read)
            if part.name:
                record = replace(record, place=f"{part.name} {record.place}")
            for entry in _entries(record, reader.entries, options):
                yield _checked(entry, request, agent, by), share


def _entries(
    record: Record, read: Callable[[Record, ReadOptions], Iterator[Entry]], options: ReadOptions
) -> Iterator[Entry]:
    if record.why:
        yield refused(record.place, record.why)
        return
    try:
        yield from read(record, options)
    except BadEntry as error:
        yield refused(record.place, error.detail.removeprefix(f"{place_shown(record.place)}: "))


def _checked(entry: Entry, request: ImportRequest, agent: Agent, by: Principal) -> Entry:
    """The entry with what was chosen for all, or refused with the reason that its service would give."""
    if entry.kind in (SKIPPED, REFUSED):
        return entry
    if request.only and entry.owner != request.only and not entry.owner.startswith(f"{request.only}/"):
        return skipped(entry.place, "not part of the selection")
    of_all = {name: getattr(request, name) for name in KEYS if getattr(request, name)}
    fields: dict[str, Any] = of_all | dict(entry.fields)
    try:
        if entry.kind in (FACT, EVENT):
            user_write_check(agent, by, fields.get("user", ""))
        if entry.kind == FACT:
            fields = {"category": request.category, **fields}
            if fields["category"] in CATEGORY_PERMISSIONS:
                raise Invalid(f"category: a {fields['category']} affects every prompt; a person must write it.")
            origin_check(fields.get("origin", ""))
            fact_fields_check(**{name: value for name, value in fields.items() if name != "origin"})
        elif entry.kind == EVENT:
            draft_check("event", fields, persona=request.persona, now=clock.now())
        elif entry.kind == IDENTITY:
            fields = dict(entry.fields)
            section_check(fields["section"])
            identity_text_check(fields["content"], fields.get("reason", ""), by=by)
    except DomainError as error:
        return refused(entry.place, error.detail.removeprefix("event."))
    return replace(entry, fields=fields)


def _short(entry: Entry) -> str:
    text = Truncator(" ".join(str(entry.fields["content"]).split())).chars(EXAMPLE_CHARACTERS)
    named = {IDENTITY: "section", EVENT: "kind"}.get(entry.kind)
    return f"{entry.fields[named]}: {text}" if named else text


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


@contextmanager
def placing(batch: Sequence[Entry]) -> Iterator[None]:
    """Let refusals name the place in the file of the entry that they call `events[i]` or `facts[i]`, else of the
    first."""
    try:
        yield
    except (Invalid, Conflict) as error:
        named = PLACE.match(error.detail)
        place = place_shown(batch[int(named[1]) if named else 0].place)
        raise type(error)(f"{place}: {PLACE.sub('', error.detail, count=1)}", **error.extra) from error
