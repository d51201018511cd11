"""Import conversations of other tools as events: one lazy reader per format, with the position of each event.

A reader yields entries in the order in which they were said, each with the share of the file that is read then (0 to
1). The same file gives the same turns at the same places, by which a repeated import finds what it has stored already.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from identity.models import Agent
from identity.principal import Principal
from memory.layers.event_validation import EVENT_FIELDS, MAX_KEY_CHARACTERS, events_check
from memory.services.events import erased_keys, events_record
from memory.transfer.import_dry_run import placing
from memory.transfer.json_stream import (
    BadEntry,
    BadJson,
    json_read,
    list_check,
    moment_get,
    text_get,
    texts_kept,
    value_get,
)
from memory.transfer.readers.entry import (
    CITATIONS,
    EVENT,
    SKIPPED,
    THOUGHTS,
    Entry,
    MessageText,
    ReadOptions,
    citations_removed,
    kind_left_out,
    message_text,
    skipped,
)
from nousweb.lib import clock

TOOL_ROLES = ("tool", "function")
THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""Where servers that speak OpenAI's protocol put the thoughts of a model."""
SESSION = re.compile(r"session_[0-9]{1,9}")


Turns = Iterator[tuple[Entry, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(ReadOptions):
    """The source of an import: the file, the persona of the memories, and the conversations to read.

    `conversation` counts from 1; None takes all.
    """

    path: Path
    conversation: int | None = None

    def chosen(self, conversations: list[Any]) -> list[tuple[int, Any]]:
        """The conversations to import with their numbers."""
        numbered = list(enumerate(conversations, 1))
        if self.conversation is None:
            return numbered
        if not 1 <= self.conversation <= len(numbered):
            raise BadEntry(self.path.name, f"there are {len(numbered)} conversations, no {self.conversation}.")
        return [numbered[self.conversation - 1]]


def read_locomo(source: Source) -> Turns:
    """LoCoMo's own format: a list of samples with sessions of turns; each session is a loop.

    The first speaker's turns are input, the second's output.
    """
    samples = _parse(source.path.read_bytes(), source.path.name)
    chosen = source.chosen(samples if isinstance(samples, list) else [samples])
    for done, (number, sample) in enumerate(chosen):
        name = text_get(sample, "sample_id", f"conversation {number}", default=f"conversation-{number}")
        talk = value_get(sample, "conversation", name)
        first_speaker = text_get(talk, "speaker_a", name)
        sessions = sorted(
            (int(key.removeprefix("session_")), key)
            for key, turns in talk.items()
            if SESSION.fullmatch(key) and list_check(f"{name} {key}", turns)
        )
        for place, (session, key) in enumerate(sessions):
            ts = _locomo_moment(f"{name} session {session}", value_get(talk, f"{key}_date_time", f"{name} {key}"))
            for index, turn in enumerate(talk[key], 1):
                where = f"{name} session {session} turn {index}"
                speaker, text = text_get(turn, "speaker", where), text_get(turn, "text", where)
                dia_id = text_get(turn, "dia_id", where, default=f"D{session}:{index}")
                caption = turn.get("blip_caption")
                content = f"{speaker}: {text}" + (f" [{caption}]" if isinstance(caption, str) and caption else "")
                event = {
                    "kind": source.input_kind if speaker == first_speaker else source.output_kind,
                    "content": content,
                    "loop_id": f"{name}/session_{session}",
                    "ts": ts,
                    "metadata": {"speaker": speaker, "dia_id": dia_id},
                }
                share = (done + (place + 1) / len(sessions)) / len(chosen)
                yield Entry(EVENT, f"{name}/{dia_id}", fields=event), share


def read_jsonl(source: Source) -> Turns:
    """A line an event, with the fields of POST /api/events. Events without a loop share one named by the file."""
    size = max(source.path.stat().st_size, 1)
    read = 0
    with source.path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            read += len(raw)
            if not raw.strip():
                continue
            where = f"line {number}"
            event = _parse(raw, where)
            if not isinstance(event, dict):
                raise BadEntry(where, "this is not an object.")
            if unknown := sorted(set(event) - EVENT_FIELDS):
                raise BadEntry(where, f"a field is not known: {unknown[0][:60]!r}.")
            ts = event.get("ts")
            event = {"loop_id": source.path.stem[:100].strip() or "import", **event, "ts": moment_get(where, ts)}
            yield Entry(EVENT, where, fields=event), read / size


def read_openai(source: Source) -> Turns:
    """Messages of OpenAI's chat completions: a list of them, {"messages": […]}, or many of these (also as lines)."""
    for where, loop_id, message, share, user in _messages(source):
        role = text_get(message, "role", where)
        ts = moment_get(where, message.get("timestamp") or message.get("created_at"))
        base = {"loop_id": loop_id, "ts": ts, **user}
        said = message_text(where, message.get("content"), any_kind=role in TOOL_ROLES)
        if role in ("system", "developer"):
            yield from _turn(where, "", base, "system_event", said, {"role": role}, share)
        elif role == "user":
            yield from _turn(where, "", base, source.input_kind, said, _named(message), share)
        elif role in TOOL_ROLES:
            metadata = texts_kept(message, "tool_call_id", "name")
            yield from _turn(where, "", base, "tool_result", said, metadata, share)
        elif role == "assistant":
            # The text goes with the calls; without any it is the answer.
            for index, (name, arguments, about) in enumerate(_calls(message, where), 1):
                call = MessageText(f"{name}({arguments})")
                yield from _turn(where, f" call {index}", base, "tool_call", call, {"tool": name} | about, share)
            yield from ((skipped(where, THOUGHTS), share) for name in THOUGHT_FIELDS if message.get(name))
            audio = message.get("audio")
            spoken = texts_kept(audio, "transcript").values() if isinstance(audio, dict) else ()
            words = [said.words, text_get(message, "refusal", where, default=""), *spoken]
            answer = MessageText("\n".join(filter(None, words)), said.left_out)
            yield from _turn(where, "", base, source.output_kind, answer, _named(message), share)
        else:
            raise BadEntry(where, f"role {str(role)[:40]!r} is not known.")


def read_anthropic(source: Source) -> Turns:
    """Messages of Anthropic's Messages API: {"system", "messages": […]} or the list alone, or many (also as lines)."""
    for where, loop_id, message, share, user in _messages(source):
        role = text_get(message, "role", where)
        if role not in ("user", "assistant", "system"):
            raise BadEntry(where, f"role {str(role)[:40]!r} is not known.")
        kind = {"user": source.input_kind, "assistant": source.output_kind}.get(role, "system_event")
        ts = moment_get(where, message.get("timestamp") or message.get("created_at"))
        base = {"loop_id": loop_id, "ts": ts, **user}
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for index, block in enumerate(blocks, 1):
            if not isinstance(block, dict):
                raise BadEntry(where, f"block {index} is not an object.")
            suffix = f" block {index}" if len(blocks) > 1 else ""
            held = text_get(block, "type", where, default="")
            if why := kind_left_out(held):
                yield skipped(where, why), share
            elif held.endswith("tool_use"):
                name = text_get(block, "name", where)
                call = MessageText(f"{name}({json.dumps(block.get('input', {}), ensure_ascii=False)})")
                metadata = {"tool": name, **texts_kept(block, "id")}
                yield from _turn(where, suffix, base, "tool_call", call, metadata, share)
            elif held.endswith("tool_result"):
                told = message_text(where, block.get("content"), any_kind=True)
                result = "error" if block.get("is_error") else "tool_result"
                yield from _turn(where, suffix, base, result, told, texts_kept(block, "tool_use_id"), share)
            else:
                yield from _turn(where, suffix, base, kind, message_text(where, [block]), {}, share)


def _calls(message: dict[str, Any], where: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, arguments and id of each call of a tool, that of the older form too."""
    calls = message.get("tool_calls") or []
    list_check(f"{where}: tool_calls", calls)
    functions = [(value_get(call, "function", where), texts_kept(call, "id")) for call in calls]
    if older := message.get("function_call"):
        functions.append((older, {}))
    for function, about in functions:
        yield text_get(function, "name", where), text_get(function, "arguments", where, default=""), about


READERS: dict[str, Callable[[Source], Turns]] = {
    "locomo": read_locomo,
    "openai": read_openai,
    "anthropic": read_anthropic,
    "jsonl": read_jsonl,
}


def _messages(source: Source) -> Iterator[tuple[str, str, dict[str, Any], float, dict[str, str]]]:
    """Every message with its place, its loop, the share read and its user, as a request names it: the shapes in which
    both makers' chats come."""
    held = _json_or_lines(source.path)
    if isinstance(held, dict):
        held = [held]
    elif not isinstance(held, list):
        raise BadEntry(source.path.name, "there are no messages.")
    elif held and isinstance(held[0], dict) and "role" in held[0]:
        held = [{"messages": held}]
    chosen = source.chosen(held)
    for done, (number, conversation) in enumerate(chosen):
        name = f"conversation {number}"
        if isinstance(conversation, list):
            conversation = {"messages": conversation}
        messages = value_get(conversation, "messages", name)
        list_check(f"{name}: messages", messages)
        if conversation.get("system"):
            messages = [{"role": "system", "content": conversation["system"]}, *messages]
        if isinstance(number_of := conversation.get("id"), int) and not isinstance(number_of, bool):
            conversation["id"] = str(number_of)
        loop_id = text_get(conversation, "id", name, default="")[:100] or f"{source.path.stem[:80].strip()}/{number}"
        about = conversation.get("metadata")
        named = conversation.get("user") or (about.get("user_id") if isinstance(about, dict) else None)
        user = {"user": named} if isinstance(named, str) else {}
        for place, message in enumerate(messages, 1):
            where = f"{name} message {place}"
            if not isinstance(message, dict):
                raise BadEntry(where, "this is not an object.")
            yield where, loop_id, message, (done + place / len(messages)) / len(chosen), user


def _turn(
    where: str, suffix: str, base: dict[str, Any], kind: str, said: MessageText, metadata: dict[str, Any], share: float
) -> Turns:
    """The turn, unless it is empty, and the reasons for parts that are left out."""
    yield from ((skipped(where, why), share) for why in said.left_out)
    words = citations_removed(said.words) if kind.endswith("_output") else said.words
    if words != said.words:
        yield skipped(where, CITATIONS), share
    if words.strip():
        event = {**base, "kind": kind, "content": words, "metadata": metadata}
        yield Entry(EVENT, where + suffix, fields=event), share


def _named(message: dict[str, Any]) -> dict[str, Any]:
    name = message.get("name")
    return {"speaker": name} if isinstance(name, str) and name else {}


def _json_or_lines(path: Path) -> Any:
    """The JSON in a file, or where it has several lines of JSON, the list of them."""
    raw = path.read_bytes()
    lines = [(number, line) for number, line in enumerate(raw.splitlines(), 1) if line.strip()]
    try:
        return _parse(raw, path.name)
    except BadEntry:
        if len(lines) < 2 or not lines[0][1].rstrip().endswith((b"}", b"]")):
            raise
        return [_parse(line, f"line {number}") for number, line in lines]


def _parse(raw: bytes, where: str) -> Any:
    try:
        return json_read(raw)
    except BadJson as error:
        at = f" line {error.line}" if error.line and raw.count(b"\n") > 1 else ""
        raise BadEntry(f"{where}{at}", error.why) from error


def _locomo_moment(where: str, text: Any) -> datetime:
    try:
        return datetime.strptime(str(text), "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    except ValueError as error:
        raise BadEntry(where, f"{str(text)[:60]!r} is no time such as “1:56 pm on 8 May, 2023”.") from error


BATCH = 500

Progress = Callable[[float, int, int], None]
"""Called with the share that is read (0 to 1), the events stored, and those that were there already."""


@dataclass(frozen=True, slots=True)
class ImportedEvents:
    """How many events were stored, how many had been already, and what was left out, by reason."""

    stored: int
    repeated: int
    left_out: Counter[str]


def conversation_import(
    *,
    agent: Agent,
    path: Path,
    format: str,
    by: Principal,
    persona: str = "actor",
    conversation: int | None = None,
    project: str = "",
    task: str = "",
    user: str = "",
    progress: Progress = lambda share, stored, repeated: None,
) -> ImportedEvents:
    """Record the turns in `path` as events.

    1. The file is read through first, and nothing is stored when any of it cannot be.
    2. Batches of 500 follow, each a call of events_record. What is stored stays when this is stopped, and importing
       the file again goes on from there, since keys come from the file's name and each turn's place in it.

    Events belong to `project`, `task` and `user` unless the file says otherwise. Raises Invalid, naming the line or
    turn, and Conflict when a file of this name had something else in this place.
    """
    source = Source(path=path, persona=persona, conversation=conversation)
    keys = {name: key for name, key in (("project", project), ("task", task), ("user", user)) if key}
    left_out: Counter[str] = Counter()
    for batch, events, _ in _batches(source, format, keys, left_out):
        with placing(batch):
            events_check(events, persona=persona, now=clock.now())
    stored = repeated = 0
    for batch, events, share in _batches(source, format, keys, Counter()):
        erased = erased_keys(agent, persona, [event["key"] for event in events])
        kept = [(entry, event) for entry, event in zip(batch, events, strict=True) if event["key"] not in erased]
        left_out.update(["erased by a person"] * (len(batch) - len(kept)))
        with placing([entry for entry, _ in kept]):
            told = [event for _, event in kept]
            recorded = events_record(agent=agent, events=told, by=by, persona=persona) if told else []
        again = sum(one.repeated for one in recorded)
        stored, repeated = stored + len(recorded) - again, repeated + again
        progress(share, stored, repeated)
    return ImportedEvents(stored, repeated, left_out)


def _batches(
    source: Source, format: str, of_all: dict[str, str], left_out: Counter[str]
) -> Iterator[tuple[list[Entry], list[dict[str, Any]], float]]:
    """The turns of the file with the events that they become, and the share that is read; what is `left_out` is
    counted."""
    turns = _turns(READERS[format](source), left_out)
    while batch := list(islice(turns, BATCH)):
        entries = [entry for entry, _ in batch]
        keys = [entry.fields.get("key") for entry in entries]
        events = [
            of_all | entry.fields | {"key": key_of(source.path, entry.place) if key is None else key}
            for entry, key in zip(entries, keys, strict=True)
        ]
        yield entries, events, batch[-1][1]


def _turns(read: Turns, left_out: Counter[str]) -> Turns:
    for entry, share in read:
        if entry.kind == SKIPPED:
            left_out[entry.why] += 1
        else:
            yield entry, share


def key_of(path: Path, place: str) -> str:
    """The key of a turn: the file's name, without its folder, and the place in it."""
    room = MAX_KEY_CHARACTERS - len(place) - 1
    return f"{path.name[-room:].strip() if room > 0 else ''}:{place}"[-MAX_KEY_CHARACTERS:]
