"""Events: what may be one, and the texts that derive from them: of a long-term entry, a loop's summary, an episode
without a judge. Each error names the place of the rejected value. The texts are the same each time they are derived.

Source: seed "Agentic Memory System".
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    length_check,
    moment_check,
    storable_check,
    word_check,
)
from nousweb.lib.bounds import EVERYBODY

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
    return storable_check(field, length_check(field, content, MAX_EVENT_CHARACTERS))


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


ELLIPSIS = "…"
_SENTENCE_END = re.compile(r"[.!?…。！？]+[\"'”’)\]]*(?=\s)|[。！？]")
_TRACE_SEARCH_CHARACTERS = 20_000


def compact(content: str, *, kind: str, metadata: Mapping[str, Any]) -> str:
    """The compacted text of an event.

    1. White space is folded; of tool output, errors and stack traces only within lines, and empty lines go.
    2. Prose beyond MAX_PROSE_CHARACTERS ends at the last sentence that fits; output keeps its first
       OUTPUT_HEAD_CHARACTERS and its last OUTPUT_TAIL_CHARACTERS, at borders of lines where there are any.
    3. The speaker whom the metadata names comes first, unless the text begins with them.
    """
    if kind in OUTPUT_KINDS or STACK_TRACE.search(content[:_TRACE_SEARCH_CHARACTERS]):
        text = _cut_middle(fold_lines(content))
    else:
        text = cut_at_sentence(fold(content), MAX_PROSE_CHARACTERS)
    return _with_speaker(text, metadata)


def indexed_text(content: str, compacted: str, *, kind: str, metadata: Mapping[str, Any]) -> str:
    """The text of an event in the index: all of its lines, while `compact` keeps only the beginning of prose."""
    output = kind in OUTPUT_KINDS or STACK_TRACE.search(content[:_TRACE_SEARCH_CHARACTERS])
    if output or len(content) <= MAX_PROSE_CHARACTERS or len(fold(content)) <= MAX_PROSE_CHARACTERS:
        return compacted
    return _with_speaker(fold_lines(content), metadata)


def _with_speaker(text: str, metadata: Mapping[str, Any]) -> str:
    speaker = metadata.get("speaker")
    if not isinstance(speaker, str):
        return text
    speaker = fold(speaker)[:MAX_SPEAKER_CHARACTERS].rstrip()
    if not speaker or text.casefold().startswith(speaker.casefold()):
        return text
    return f"{speaker}: {text}"


def fold(text: str) -> str:
    """`text` with every run of white space as one space."""
    return " ".join(text.split())


def fold_lines(text: str) -> str:
    """`text` with white space folded within its lines, and without empty lines."""
    return "\n".join(line for line in map(fold, text.splitlines()) if line)


def cut_at_sentence(text: str, limit: int) -> str:
    """The beginning of `text` in at most `limit` characters: whole sentences, or words if the first is too long."""
    if len(text) <= limit:
        return text
    room = limit - 2
    ends = [found.end() for found in _SENTENCE_END.finditer(text, 0, room + 1)]
    # A first sentence of a few words says little; then as many words as fit say more.
    end = ends[-1] if ends and ends[-1] >= room // 4 else text.rfind(" ", 0, room + 1)
    if end < room // 4:
        end = room
    return f"{text[:end].rstrip()} {ELLIPSIS}"


def _cut_middle(text: str) -> str:
    if len(text) <= OUTPUT_HEAD_CHARACTERS + OUTPUT_TAIL_CHARACTERS:
        return text
    head_end = text.rfind("\n", OUTPUT_HEAD_CHARACTERS // 2, OUTPUT_HEAD_CHARACTERS)
    if head_end < 0:
        head_end = OUTPUT_HEAD_CHARACTERS
    tail_start = text.find("\n", len(text) - OUTPUT_TAIL_CHARACTERS, len(text) - OUTPUT_TAIL_CHARACTERS // 2)
    if tail_start < 0:
        tail_start = len(text) - OUTPUT_TAIL_CHARACTERS
    left_out = tail_start - head_end
    return f"{text[:head_end].rstrip()}\n[{ELLIPSIS} {left_out:,} characters {ELLIPSIS}]\n{text[tail_start:].lstrip()}"


@dataclass(frozen=True, slots=True)
class LoopDigest:
    """The material of a summary: compacted texts of the relevant events, in the order of the loop.

    `opening` is the first input, or the first event where there is none; `output` the last output.
    """

    opening: str
    output: str = ""
    tools: Sequence[str] = ()
    errors: Sequence[str] = ()
    error_count: int = 0


def loop_text(digest: LoopDigest) -> str:
    """The summary: a line each for what was asked, answered, used and went wrong; empty parts are left out."""
    lines = [("Input", cut_at_sentence(fold(digest.opening), MAX_SUMMARY_INPUT))]
    if digest.output and digest.output != digest.opening:
        lines.append(("Output", cut_at_sentence(fold(digest.output), MAX_SUMMARY_OUTPUT)))
    if digest.tools:
        counted = Counter(digest.tools)
        named = [f"{name} ×{count}" if count > 1 else name for name, count in counted.items()]
        more = [f"{len(named) - MAX_SUMMARY_TOOLS} more"] if len(named) > MAX_SUMMARY_TOOLS else []
        lines.append(("Tools", ", ".join([*named[:MAX_SUMMARY_TOOLS], *more])))
    if digest.errors:
        many = f"{digest.error_count} in all; the last: " if digest.error_count > 1 else ""
        lines.append(("Errors", many + cut_at_sentence(fold(digest.errors[-1]), MAX_SUMMARY_ERROR)))
    return "\n".join(f"{label}: {text}" for label, text in lines if text)[:MAX_SUMMARY_CHARACTERS]


def tool_name(content: str, metadata: Mapping[str, Any]) -> str:
    """The tool that a call names: in its metadata, or else with the first word of its content."""
    for name in ("tool", "tool_name", "name"):
        value = metadata.get(name)
        if isinstance(value, str) and value.strip():
            return fold(value)[:MAX_TOOL_CHARACTERS]
    words = content[:200].replace("(", " ").replace("{", " ").split()
    return words[0][:MAX_TOOL_CHARACTERS].strip(":,;") if words else ""


def loop_kind(kinds: Iterable[str]) -> str:
    """The kind that a loop's boost goes by, of its events' kinds in order: its last output or error, else its first."""
    seen = list(kinds)
    telling = [kind for kind in seen if kind in CLOSING_KINDS or kind == EventKind.ERROR]
    return telling[-1] if telling else seen[0]


def loop_visibility(words: Iterable[str]) -> str:
    """The least visible of a loop's words; of two equally visible ones the first in the alphabet."""
    return min(words, key=lambda word: (-VISIBILITY_RANK.get(word, OTHER_VISIBILITY_RANK), word))


MAX_SUMMARY_WORDS = 150
MAX_TITLE_WORDS = 10
MAX_SENTENCES = 400
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_WORD = re.compile(r"\w[\w'-]*")
_COMMON_WORDS = """
    the a an and or but if of to in on at for with by from as is are was were be been it its this that these those i
    you he she we they me him her us them my your his our their not no do does did have has had will would can could
    should so then than there here what which who when how just also very about into out up
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def extract_summary(text: str) -> str:
    """The sentences of `text` that share most with the rest, in their order, in at most 150 words.

    The first and the last one are always there: how it began, and what came of it. "" for a text without words.
    """
    sentences = _sentences(text)
    if not sentences:
        return ""
    words = [_telling(sentence) for sentence in sentences]
    spread = Counter(word for each in words for word in set(each))
    scores = [sum(spread[word] for word in set(each)) / (len(each) + 5) for each in words]
    ranked = sorted(range(1, len(sentences) - 1), key=lambda place: (-scores[place], place))
    chosen: list[int] = []
    room = MAX_SUMMARY_WORDS
    for place in [0, *([len(sentences) - 1] if len(sentences) > 1 else []), *ranked]:
        length = len(sentences[place].split())
        if length <= room:
            chosen.append(place)
            room -= length
    if not chosen:
        return " ".join(sentences[0].split()[: MAX_SUMMARY_WORDS - 1]) + " …"
    return " ".join(sentences[place] for place in sorted(chosen))


def extract_title(text: str) -> str:
    """The first sentence of `text` with a word that tells something, in at most ten words and 200 characters."""
    sentences = _sentences(text)
    first = next((sentence for sentence in sentences if _telling(sentence)), sentences[0] if sentences else "")
    words = first.rstrip(".!? ").split()
    title = " ".join(words[:MAX_TITLE_WORDS])
    cut = len(words) > MAX_TITLE_WORDS or len(title) > 200
    return title[:198].rstrip(" ,;:") + " …" if cut else title


def _sentences(text: str) -> list[str]:
    found, seen = [], set()
    for match in _SENTENCE.finditer(text):
        sentence = " ".join(match[0].split())
        if _WORD.search(sentence) and sentence.casefold() not in seen:
            seen.add(sentence.casefold())
            found.append(sentence)
    return found if len(found) <= MAX_SENTENCES else [*found[: MAX_SENTENCES // 2], *found[-MAX_SENTENCES // 2 :]]


def _telling(sentence: str) -> list[str]:
    return [word for word in (each.casefold() for each in _WORD.findall(sentence)) if word not in _COMMON]
