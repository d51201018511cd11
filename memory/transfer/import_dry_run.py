"""Dry run of an import: counts, examples, skipped and refused entries of a file, without storing anything."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from identity.models import Agent
from identity.policy.sections import SECTION_NAMES, section_check
from identity.principal import Principal
from identity.services.guardrails import section_text_check as identity_text_check
from memory.layers.event_validation import draft_check
from memory.models import KEYS, key_check, serves_users, user_write_check
from memory.policy import CATEGORY_PERMISSIONS, DEFAULT_CATEGORY
from memory.services.facts.store import fact_fields_check
from memory.services.trust import origin_check
from memory.transfer.json_stream import Record, records_read
from memory.transfer.json_values import BadEntry, place_shown, printable
from memory.transfer.readers import FORMATS
from memory.transfer.readers.entry import EVENT, FACT, IDENTITY, REFUSED, SKIPPED, Entry, ReadOptions, refused, skipped
from memory.transfer.readers.letta import LEAVE_OUT
from memory.transfer.source_file import parts_read
from nousweb.lib import DomainError, Invalid, clock

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
    text = " ".join(str(entry.fields["content"]).split())
    text = text if len(text) <= EXAMPLE_CHARACTERS else f"{text[: EXAMPLE_CHARACTERS - 1]}…"
    if entry.kind == IDENTITY:
        return f"{entry.fields['section']}: {text}"
    if entry.kind == EVENT:
        return f"{entry.fields['kind']}: {text}"
    return text
