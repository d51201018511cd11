"""Types of an import format and of the entries that its reader yields, and the parts of chat messages."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from memory.policy import MAX_ATTRIBUTE_CHARACTERS, MAX_VALUE_CHARACTERS
from memory.transfer.json_stream import BadEntry, Record, list_check, moment_get, place_shown, text_get

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


THOUGHTS = "thoughts of the model"
BOOKKEEPING = "bookkeeping of the chat"
CITATIONS = "citation marks in a message, of which the words are kept"
NOT_REMEMBERED = "a conversation that is not to be remembered"

_THOUGHTS = re.compile("thought|thinking|reasoning")
_BOOKKEEPING = frozenset({"token_budget", "flag", "usage", "step_start", "step-start", "step_finish", "step-finish"})
_SPOKEN = frozenset(
    {"", "text", "input_text", "output_text", "refusal", "code", "markdown", "voice_note", "audio_transcription"}
)
_MEDIA = re.compile("image|audio|video|file|document|attachment|asset")
_WORDS = ("text", "refusal")

# ChatGPT encloses its marks in characters for private use, which some exports lose; the older marks are in brackets.
_MARK = re.compile("[ \t]*\ue200([^\ue200\ue201]*)\ue201")
_PLAIN_MARK = (
    r"【[^】\n]*†[^】\n]*】|【(?:oaicite:|turn)[0-9][^】\n]*】|:contentReference\[oaicite:[0-9]+\](?:\{index=[0-9]+\})?"
    r"|\b(?:file)?cite(?:turn[0-9]+[a-z]+[0-9]+)+"
)
_OTHER_MARKS = re.compile(f"[ \t]*(?:{_PLAIN_MARK})|[\ue200-\ue2ff]")


@dataclass(slots=True)
class MessageText:
    """The words of a message, and the reason for each part that is left out."""

    words: str
    left_out: list[str] = field(default_factory=list)


def kind_left_out(kind: str) -> str | None:
    """Why a part or a message of this kind is left out; None if it may be said."""
    if _THOUGHTS.search(kind):
        return THOUGHTS
    return BOOKKEEPING if kind in _BOOKKEEPING else None


def message_text(where: str, content: Any, *, kind_name: str = "type", any_kind: bool = False) -> MessageText:
    """The text of a message: a text, or its parts, whose kinds are under `kind_name`. Media are named in brackets.

    With `any_kind`, as for results of tools, parts of unknown kinds are read too. Raises BadEntry.
    """
    if content is None or isinstance(content, str):
        return MessageText(content or "")
    list_check(f"{where}: content", content)
    texts: list[str] = []
    left_out: list[str] = []
    for place, part in enumerate(content, 1):
        if isinstance(part, str):
            texts.append(part)
            continue
        held = f"{where} part {place}"
        kind = text_get(part, kind_name, held, default="")
        name = next((name for name in _WORDS if part.get(name) is not None), "")
        if why := kind_left_out(kind):
            left_out.append(why)
        elif kind in _SPOKEN or (any_kind and name):
            texts.append(text_get(part, name, held) if name else "")
        elif any_kind or _MEDIA.search(kind):
            texts.append(f"[{kind}]")
        else:
            left_out.append(f"a part of the kind {kind[:40]!r}")
    return MessageText("\n".join(text for text in texts if text), left_out)


def citations_removed(text: str) -> str:
    """The words of a model without its marks of citations."""
    return _OTHER_MARKS.sub("", _MARK.sub(_shown, text))


def _shown(match: re.Match[str]) -> str:
    """The words that ChatGPT shows for a mark: the title of a link, the name of an entity."""
    kind, *values = match[1].split("\ue202")
    words = values[0] if values and kind == "url" else ""
    if values and kind == "entity":
        try:
            entity = json.loads(values[0])
        except (ValueError, RecursionError):
            return ""
        words = entity[1] if isinstance(entity, list) and len(entity) > 1 and isinstance(entity[1], str) else ""
    return match[0][: match[0].index("\ue200")] + words if words else ""
