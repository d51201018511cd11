"""Types of an import format and of the entries that its reader yields."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from memory.policy import MAX_ATTRIBUTE_CHARACTERS, MAX_VALUE_CHARACTERS
from memory.transfer.json_stream import Record
from memory.transfer.json_values import BadEntry, moment_get, place_shown

FACT, EVENT, IDENTITY = "fact", "event", "identity"
SKIPPED, REFUSED = "skipped", "refused"
MAX_TAG_CHARACTERS = 50
MAX_SOURCE_TAGS = 10


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a file holds.

    `kind` is "fact", "event" or "identity", and `fields` what the service for it takes; or "skipped" (nothing of it is
    memory) or "refused" (it cannot be read), and `why` says why. `source_id` is what the source calls it, `owner` whose
    it is there: a user, a namespace, an agent, a conversation.
    """

    kind: str
    place: str
    source_id: str = ""
    owner: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    why: str = ""


def stated_of(given: Mapping[str, Any]) -> dict[str, str]:
    """The attribute and its value that an entry names beside its sentence; {} without both."""
    most = {"attribute": MAX_ATTRIBUTE_CHARACTERS, "value": MAX_VALUE_CHARACTERS}
    texts = {name: text for name in most if isinstance(text := given.get(name), str) and 0 < len(text) <= most[name]}
    return texts if len(texts) == len(most) else {}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a person: the persona of the memories, and identity sections by the label of a Letta block.
    `serves_users`: whether the agent serves many users, so that what a file says of one keeps that user's key."""

    persona: str = "actor"
    sections: Mapping[str, str] = field(default_factory=dict)
    serves_users: bool = False

    @property
    def input_kind(self) -> str:
        return "user_input" if self.persona == "actor" else "subconscious_prompt"

    @property
    def output_kind(self) -> str:
        return "actor_output" if self.persona == "actor" else "subconscious_output"


@dataclass(frozen=True, slots=True)
class Format:
    """A format by its name: `lists` of an object hold its records, `fits` tells it by one of them."""

    name: str
    title: str
    lists: tuple[str, ...]
    fits: Callable[[Mapping[str, Any]], bool]
    entries: Callable[[Record, ReadOptions], Iterator[Entry]]


def skipped(place: str, why: str) -> Entry:
    return Entry(SKIPPED, place, why=why)


def refused(place: str, why: str) -> Entry:
    return Entry(REFUSED, place, why=why)


def attempt(read: Callable[..., Iterator[Entry]], value: Any, place: str, *arguments: Any) -> Iterator[Entry]:
    """The entries that `read` makes of a value, or one refused entry for all of it."""
    try:
        yield from list(read(value, place, *arguments))
    except BadEntry as error:
        yield refused(place, error.detail.removeprefix(f"{place_shown(place)}: "))


def source_moment(where: str, value: Any) -> datetime | None:
    """A moment of another tool; without a time zone it is in UTC, as these tools write it."""
    return moment_get(where, value or None, naive=UTC)


def expiry_moment(where: str, value: Any) -> datetime | None:
    """The end of a day that is given as a date, else the moment itself."""
    moment = source_moment(where, value)
    if moment is not None and isinstance(value, str) and len(value) == len("2026-01-31"):
        return moment + timedelta(days=1)
    return moment


def content_id(*values: Any) -> str:
    """An id from the content of an entry that has none in its source."""
    return hashlib.sha256(json.dumps(values, ensure_ascii=False, sort_keys=True, default=str).encode()).hexdigest()


def tags_of(*values: Any) -> list[str]:
    """The values that can be tags, without duplicates."""
    texts = (value.strip()[:MAX_TAG_CHARACTERS].strip() for value in values if isinstance(value, str))
    return [tag for tag in dict.fromkeys(texts) if tag.isprintable() and tag][:MAX_SOURCE_TAGS]
