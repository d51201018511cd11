"""Letta: an agent file (.af), of today's form and of the first one.

Blocks of core memory become proposals for the identity, which people decide about; archival passages facts; messages
events. System prompts, tools and settings are Letta's own.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from memory.transfer.json_stream import BadEntry, Record, list_check, text_get, texts_kept, value_get
from memory.transfer.readers.entry import (
    CITATIONS,
    EVENT,
    FACT,
    IDENTITY,
    Entry,
    Format,
    ReadOptions,
    attempt,
    citations_removed,
    content_id,
    message_text,
    skipped,
    source_moment,
    tags_of,
)

SECTIONS = {"persona": "character", "human": "preferences"}
"""Sections of an identity by the label of a block; any other block says how the agent works."""
OTHER_SECTION = "protocols"
LEAVE_OUT = "none"
PASSAGES = ("passages", "archival_memory", "archival_passages")
SPEAKING_TOOL = "send_message"
"""The tool by which agents of the older kinds answer; its argument is the answer."""
TOOL_ROLES = ("tool", "function")
NOTICES = ("heartbeat", "login", "system_alert", "package_message")
"""Messages in a user's name that Letta itself writes."""


def _fits(record: Mapping[str, Any]) -> bool:
    return ("agents" in record and "blocks" in record) or ("core_memory" in record and "messages" in record)


def _entries(record: Record, options: ReadOptions) -> Iterator[Entry]:
    file = record.value
    if not isinstance(file, dict) or not _fits(file):
        raise BadEntry(
            record.place, "this is no agent file of Letta: it has neither agents with blocks nor core_memory."
        )
    agents = file.get("agents", [file])
    list_check("agents", agents)
    blocks = {block.get("id"): block for block in _list(file, "blocks", "the file") if isinstance(block, dict)}
    for number, agent in enumerate(agents, 1):
        yield from _of_agent(agent, f"agent {number}" if "agents" in file else "the agent", blocks, options)
    for name in PASSAGES:
        if "agents" in file:
            yield from _passages(_list(file, name, "the file"), name, "")
    for name in ("sources", "files", "tools", "groups", "mcp_servers"):
        if found := file.get(name):
            count = len(found) if isinstance(found, list) else 1
            for _ in range(count):
                yield skipped(name, f"{name} of Letta")


def _of_agent(agent: Any, where: str, blocks: Mapping[Any, Any], options: ReadOptions) -> Iterator[Entry]:
    owner = text_get(agent, "name", where, default="") or text_get(agent, "id", where, default=where)
    own = [blocks.get(key) for key in _list(agent, "block_ids", where)]
    own += _list(agent, "core_memory", where) + _list(agent, "memory_blocks", where)
    sections: dict[str, list[tuple[str, str]]] = {}
    for number, block in enumerate(own, 1):
        place = f"{where} block {number}"
        if block is None:
            raise BadEntry(place, "it is not among the blocks of the file.")
        label = text_get(block, "label", place)
        section = options.sections.get(label, SECTIONS.get(label, OTHER_SECTION))
        words = text_get(block, "value", place, default="").strip()
        if section == LEAVE_OUT or not words:
            yield skipped(f"{place} ({label})", "a block without words" if not words else "a block that was left out")
            continue
        sections.setdefault(section, []).append((label, words))
    for section, texts in sections.items():
        content = texts[0][1] if len(texts) == 1 else "\n\n".join(f"{label}:\n{words}" for label, words in texts)
        labels = ", ".join(label for label, _ in texts)
        fields = {"section": section, "content": content, "reason": f"Letta's core memory: {labels}"[:500]}
        yield Entry(IDENTITY, f"{where} core memory {labels}", f"{owner}/core memory/{section}", owner, fields)
    for name in PASSAGES:
        yield from _passages(_list(agent, name, where), f"{where} {name}", owner)
    for number, message in enumerate(_list(agent, "messages", where), 1):
        place = f"{where} message {number}"
        yield from attempt(_message, message, place, owner, options)


def _passages(passages: list[Any], where: str, owner: str) -> Iterator[Entry]:
    for number, passage in enumerate(passages, 1):
        place = f"{where} {number}"
        yield from attempt(_passage, passage, place, owner)


def _passage(passage: Any, place: str, owner: str) -> Iterator[Entry]:
    name = "content" if isinstance(passage, dict) and "text" not in passage else "text"
    text = text_get(passage, name, place)
    if not text.strip():
        yield skipped(place, "a passage without words")
        return
    moment = source_moment(place, passage.get("created_at") or passage.get("timestamp"))
    source_id = text_get(passage, "id", place, default="") or content_id(owner, text)
    fields = {"content": text, "tags": tags_of(*_list(passage, "tags", place)), "valid_from": moment}
    yield Entry(FACT, place, source_id, owner, fields)


def _message(message: Any, place: str, owner: str, options: ReadOptions) -> Iterator[Entry]:
    role = text_get(message, "role", place)
    if role == "system":
        yield skipped(place, "a system prompt of Letta")
        return
    said = message_text(place, message.get("content", message.get("text")), any_kind=role in TOOL_ROLES)
    yield from (skipped(place, why) for why in said.left_out)
    text = citations_removed(said.words) if role == "assistant" else said.words
    if text != said.words:
        yield skipped(place, CITATIONS)
    # In the first form a file names its messages by their place in it.
    source_id = text_get(message, "id", place, default="") or content_id(owner, place, role, said.words)
    base = {"loop_id": f"letta/{owner}"[:100].strip(), "ts": source_moment(place, message.get("created_at"))}

    def event(kind: str, words: str, suffix: str = "", **metadata: Any) -> Iterator[Entry]:
        if words.strip():
            fields = base | {"kind": kind, "content": words, "metadata": {**texts_kept(message, "name"), **metadata}}
            yield Entry(EVENT, place + suffix, f"{owner}/{source_id}{suffix}", owner, fields)

    if role == "user":
        kind, words = _of_user(text)
        if not kind:
            yield skipped(place, "a notice that Letta wrote in the user's name")
            return
        yield from event(options.input_kind, words)
    elif role == "assistant":
        for number, call in enumerate(_list(message, "tool_calls", place), 1):
            function = value_get(call, "function", place)
            name, arguments = text_get(function, "name", place), text_get(function, "arguments", place, default="")
            answer = _argument(arguments, "message") if name == SPEAKING_TOOL else None
            suffix = f" call {number}"
            if answer is None:
                yield from event("tool_call", f"{name}({arguments})", suffix, tool=name)
            else:
                yield from event(options.output_kind, answer, suffix)
        if not any(_is_answer(call) for call in _list(message, "tool_calls", place)):
            yield from event(options.output_kind, text)
        elif text.strip():
            yield skipped(place, "thoughts beside an answer")
    elif role in TOOL_ROLES:
        yield from event("tool_result", text, **texts_kept(message, "tool_call_id"))
    else:
        yield skipped(place, f"a message of the role {role[:40]!r}")


def _of_user(text: str) -> tuple[str, str]:
    """The kind and the words of a user's message, which older agents wrap in JSON; "" for what Letta wrote itself."""
    held = _object(text)
    kind = held.get("type") if held else None
    if kind in NOTICES:
        return "", ""
    words = held.get("message") if held and kind == "user_message" else None
    return "user_message", words if isinstance(words, str) else text


def _is_answer(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and function.get("name") == SPEAKING_TOOL


def _argument(arguments: str, name: str) -> str | None:
    value = _object(arguments).get(name)
    return value if isinstance(value, str) else None


def _object(text: str) -> dict[str, Any]:
    if not text.lstrip().startswith("{"):
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _list(holder: Any, name: str, where: str) -> list[Any]:
    value = value_get(holder, name, where, default=[])
    list_check(f"{where}: {name}", value)
    return list(value)


FORMAT = Format("letta", "Letta", (), _fits, _entries)
