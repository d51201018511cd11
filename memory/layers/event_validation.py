"""What may be an event. Validate an event before it is recorded; each error names the place of the rejected value."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from identity.models import Persona
from memory.models import Event, EventKind, Trust, key_check
from nousweb.lib import (
    Invalid,
    choice_check,
    depth_check,
    is_blank,
    json_check,
    moment_check,
    unstorable_reason,
    word_check,
)
from nousweb.lib.constrained_types import EVERYBODY

KIND_PERSONAS: dict[str, tuple[str, ...]] = {
    EventKind.SUBCONSCIOUS_PROMPT: (Persona.SUBCONSCIOUS,),
    EventKind.SUBCONSCIOUS_OUTPUT: (Persona.SUBCONSCIOUS,),
}
"""Kinds that only some personas record; every other kind is for both."""

CLOSING_KINDS = frozenset({EventKind.ACTOR_OUTPUT, EventKind.SUBCONSCIOUS_OUTPUT})
"""What ends a loop. Source: seed "Agentic Memory System", Prompt Loop Boundaries."""

OPENING_KINDS = (EventKind.USER_INPUT, EventKind.SUBCONSCIOUS_PROMPT)

DEFAULT_VISIBILITY = "public"
VISIBILITY_RANK = {"public": 0, "internal": 1, "private": 2}
"""The known words, the most open first; a loop is as visible as its least visible event."""
OTHER_VISIBILITY_RANK = 1

KIND_IMPORTANCE: dict[str, float] = {
    EventKind.USER_INPUT: 0.6,
    EventKind.ACTOR_OUTPUT: 0.6,
    EventKind.TOOL_CALL: 0.3,
    EventKind.TOOL_RESULT: 0.3,
    EventKind.SUBCONSCIOUS_PROMPT: 0.3,
    EventKind.SUBCONSCIOUS_OUTPUT: 0.5,
    EventKind.SYSTEM_EVENT: 0.2,
    EventKind.ERROR: 0.7,
}
"""Importance, 0 to 1, of a long-term entry by the kind of its event."""

MAX_PROSE_CHARACTERS = 2_000
"""Most characters of a long-term entry, its speaker not counted."""
OUTPUT_HEAD_CHARACTERS = 800
OUTPUT_TAIL_CHARACTERS = 600
"""Lengths to which long tool output and stack traces are shortened: beginning and end."""
MAX_SPEAKER_CHARACTERS = 100

OUTPUT_KINDS = frozenset({EventKind.TOOL_RESULT, EventKind.ERROR})
"""Kinds whose lines matter, and whose end says as much as their beginning."""
STACK_TRACE = re.compile(
    r"^Traceback \(most recent call last\):|^\s+at \S+[ (]|^\s+File \".+\", line \d+|^goroutine \d+ \[|panicked at ",
    re.MULTILINE,
)

MAX_SUMMARY_INPUT = 400
MAX_SUMMARY_OUTPUT = 500
MAX_SUMMARY_ERROR = 200
MAX_SUMMARY_TOOLS = 10
MAX_TOOL_CHARACTERS = 40
MAX_SUMMARY_CHARACTERS = 1_800
"""No summary is longer: a line each for what was asked, answered, used, and went wrong."""


MAX_EVENTS_PER_CALL = 1_000
MAX_EVENT_CHARACTERS = 200_000
MAX_METADATA_BYTES = 64 * 1024
"""Maximum size of an event's metadata as compact JSON in UTF-8."""
MAX_METADATA_DEPTH = 10
MAX_LOOP_ID_CHARACTERS = 100
MAX_KEY_CHARACTERS = 200
MAX_EVENT_LEAD = timedelta(days=1)
"""How far ahead of the server's clock an event may be stamped; the earliest year is 1970."""


EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
EVENT_FIELDS = frozenset(
    {"kind", "content", "loop_id", "ts", "visibility", "metadata", "key", "project", "task", "user", "origin"}
)


@dataclass(frozen=True, slots=True)
class EventDraft:
    """One event as it was handed over and accepted; None where the writer left the choice to the log."""

    kind: str
    content: str
    loop_id: str | None
    ts: datetime | None
    visibility: str
    metadata: dict[str, Any]
    key: str | None
    project: str = ""
    task: str = ""
    user: str = ""
    origin: str = ""

    def says_the_same(self, event: Event) -> bool:
        """Whether `event` is what recording this draft again would have stored."""
        return (
            (event.kind, event.content, event.visibility) == (self.kind, self.content, self.visibility)
            and _same_json(event.metadata, self.metadata)
            and self.loop_id in (None, event.loop_id)
            and self.ts in (None, event.ts)
            and self.project in ("", event.project)
            and self.task in ("", event.task)
            and self.user in ("", event.user or EVERYBODY)
        )


def events_check(events: Sequence[Mapping[str, Any]], *, persona: str, now: datetime) -> list[EventDraft]:
    """The drafts of one call. Raises Invalid whose field is "events[i].field"; nothing is accepted in part."""
    if not 1 <= len(events) <= MAX_EVENTS_PER_CALL:
        raise Invalid(f"One call records 1 to {MAX_EVENTS_PER_CALL:,} events, not {len(events):,}.", field="events")
    return [draft_check(f"events[{place}]", event, persona=persona, now=now) for place, event in enumerate(events)]


def draft_check(place: str, event: Mapping[str, Any], *, persona: str, now: datetime) -> EventDraft:
    """One event, checked; `place` goes before the name of its field in an error."""
    for name in event:
        if name not in EVENT_FIELDS:
            raise Invalid(f"{place} has an unknown field: {str(name)[:60]!r}.", field=f"{place}.{name}"[:120])
    kind = choice_check(f"{place}.kind", _text(place, event, "kind") or "", EventKind.values)
    personas = KIND_PERSONAS.get(kind)
    if personas and persona not in personas:
        raise Invalid(f"{place}.kind: only the {personas[0]} records {kind}.", field=f"{place}.kind")
    visibility, origin = _text(place, event, "visibility"), _text(place, event, "origin")
    return EventDraft(
        kind=kind,
        content=_content_check(f"{place}.content", _text(place, event, "content")),
        loop_id=_name_check(f"{place}.loop_id", _text(place, event, "loop_id"), MAX_LOOP_ID_CHARACTERS),
        ts=_ts_check(f"{place}.ts", event.get("ts"), now),
        visibility=DEFAULT_VISIBILITY if visibility is None else word_check(f"{place}.visibility", visibility),
        metadata=metadata_check(f"{place}.metadata", event.get("metadata")),
        key=_name_check(f"{place}.key", _text(place, event, "key"), MAX_KEY_CHARACTERS),
        project=key_check(f"{place}.project", _text(place, event, "project") or ""),
        task=key_check(f"{place}.task", _text(place, event, "task") or ""),
        user=key_check(f"{place}.user", _text(place, event, "user") or ""),
        origin=choice_check(f"{place}.origin", origin, Trust.values) if origin else "",
    )


def metadata_check(field: str, metadata: Any) -> dict[str, Any]:
    """`metadata` as it is stored: a JSON object of bounded size and depth, of numbers that JSON knows."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise Invalid(f"{field} must be an object.", field=field)
    if not metadata:
        return metadata
    depth_check(field, metadata, MAX_METADATA_DEPTH)
    size = len(json_check(field, metadata).encode())
    if size > MAX_METADATA_BYTES:
        raise Invalid(f"{field} takes at most {MAX_METADATA_BYTES:,} bytes as JSON; this takes {size:,}.", field=field)
    return metadata


def _same_json(one: Any, other: Any) -> bool:
    """Equality of JSON values in which a number is the same however it was written: 1e300 comes back whole."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_json(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same_json, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return _same_number(one, other)
    return bool(one == other)


def _same_number(one: float, other: float) -> bool:
    """Whether the log's number `one` is what it gives back for `other`."""
    if isinstance(one, int) and isinstance(other, float):
        try:
            return float(one) == other
        except OverflowError:
            # More digits than a float can hold, so no float was written there.
            return False
    return one == other


def _text(place: str, event: Mapping[str, Any], name: str) -> str | None:
    value = event.get(name)
    if value is not None and not isinstance(value, str):
        raise Invalid(f"{place}.{name} must be text.", field=f"{place}.{name}")
    return value


def _content_check(field: str, content: str | None) -> str:
    # The log is perfect: what is kept is what was said, white space included.
    if content is None or is_blank(content):
        raise Invalid(f"{field} must not be empty.", field=field)
    if len(content) > MAX_EVENT_CHARACTERS:
        raise Invalid(
            f"{field} holds at most {MAX_EVENT_CHARACTERS:,} characters; this has {len(content):,}.", field=field
        )
    if reason := unstorable_reason(content):
        raise Invalid(reason, field=field)
    return content


def _name_check(field: str, value: str | None, limit: int) -> str | None:
    """A name that the writer chose: printable, without white space at its ends."""
    if value is None:
        return None
    if not 1 <= len(value) <= limit:
        raise Invalid(f"{field} has 1 to {limit} characters, not {len(value):,}.", field=field)
    if not value.isprintable() or value != value.strip():
        raise Invalid(f"{field} must be printable text without leading or trailing white space.", field=field)
    return value


def _ts_check(field: str, value: Any, now: datetime) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise Invalid(f"{field} must be a date and time with a time zone.", field=field)
    moment = moment_check(field, value)
    if moment is None or moment < EARLIEST or moment > now + MAX_EVENT_LEAD:
        raise Invalid(f"{field} must be between the year 1970 and one day from now.", field=field)
    return moment
