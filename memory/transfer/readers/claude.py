"""Claude: conversations.json of its data export, alone or in the archive.

A conversation is a loop, a message an event.
"""

import json
from collections.abc import Iterator
from typing import Any

from memory.transfer.json_stream import BadEntry, Record, list_check, text_get, value_get
from memory.transfer.readers.entry import (
    CITATIONS,
    EVENT,
    NOT_REMEMBERED,
    THOUGHTS,
    Entry,
    Format,
    ReadOptions,
    attempt,
    citations_removed,
    content_id,
    kind_left_out,
    message_text,
    skipped,
    source_moment,
)

MAX_TITLE_CHARACTERS = 200
LEFT_OUT = "left out"
"""Instead of the kind of an event: its words are the reason."""


def _entries(record: Record, options: ReadOptions) -> Iterator[Entry]:
    where, talk = record.place, record.value
    messages = value_get(talk, "chat_messages", where)
    list_check(f"{where}: chat_messages", messages)
    if talk.get("is_temporary") is True:
        yield from (skipped(f"{where} message {number}", NOT_REMEMBERED) for number in range(1, len(messages) + 1))
        return
    name = text_get(talk, "uuid", where, default="") or content_id(talk.get("name"), talk.get("created_at"))
    title = text_get(talk, "name", where, default="")[:MAX_TITLE_CHARACTERS]
    for number, message in enumerate(messages, 1):
        place = f"{where} message {number}"
        yield from attempt(_message, message, place, name, title, talk.get("created_at"), options)


def _message(
    message: Any, place: str, conversation: str, title: str, begun: Any, options: ReadOptions
) -> Iterator[Entry]:
    sender = text_get(message, "sender", place)
    kinds = {"human": options.input_kind, "user": options.input_kind, "assistant": options.output_kind}
    if sender not in kinds:
        raise BadEntry(place, f"sender {sender[:40]!r} is not known.")
    base = {
        "loop_id": f"claude/{conversation}"[:100].strip(),
        "ts": source_moment(place, message.get("created_at")) or source_moment(place, begun),
    }
    about = {"title": title} if title else {}
    blocks = value_get(message, "content", place, default=[])
    if isinstance(blocks, str):
        blocks = [{"type": "text", "text": blocks}]
    list_check(f"{place}: content", blocks)
    if not blocks:
        blocks = [{"type": "text", "text": text_get(message, "text", place, default="")}]
    source_id = f"{conversation}/{text_get(message, 'uuid', place, default='') or content_id(place, blocks)}"
    said = False
    for suffix, kind, words, metadata in _blocks(blocks, kinds[sender], place):
        if kind == LEFT_OUT:
            yield skipped(place + suffix, words)
            continue
        if not words.strip():
            continue
        said = True
        fields = base | {"kind": kind, "content": words, "metadata": metadata | about}
        yield Entry(EVENT, place + suffix, source_id + suffix, conversation, fields)
    for suffix, words, name in _attachments(message, place):
        said = True
        fields = base | {"kind": kinds[sender], "content": words, "metadata": {"attachment": name} | about}
        yield Entry(EVENT, place + suffix, source_id + suffix, conversation, fields)
    if not said:
        yield skipped(place, "a message without words")


def _blocks(blocks: list[Any], kind: str, place: str) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Suffix, kind, words and metadata of each block; texts that follow each other are one."""
    texts: list[str] = []
    first = 0

    def spoken() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
        if texts:
            words, suffix = "\n".join(texts), f" block {first}" if first > 1 else ""
            texts.clear()
            own = citations_removed(words) if kind.endswith("_output") else words
            if own != words:
                yield suffix, LEFT_OUT, CITATIONS, {}
            yield suffix, kind, own, {}

    for number, block in enumerate(blocks, 1):
        where = f"{place} block {number}"
        suffix = f" block {number}" if number > 1 else ""
        held = text_get(block, "type", where, default="text")
        if why := kind_left_out(held):
            if why == THOUGHTS:
                yield from spoken()
            yield suffix, LEFT_OUT, why, {}
        elif held.endswith("tool_use"):
            yield from spoken()
            name = text_get(block, "name", where, default="tool")
            words = f"{name}({json.dumps(block.get('input') or {}, ensure_ascii=False)})"
            yield suffix, "tool_call", words, {"tool": name[:MAX_TITLE_CHARACTERS]}
        elif held.endswith("tool_result"):
            yield from spoken()
            result = message_text(where, block.get("content"), any_kind=True)
            yield from ((suffix, LEFT_OUT, why, {}) for why in result.left_out)
            yield suffix, "error" if block.get("is_error") is True else "tool_result", result.words, {}
        else:
            said = message_text(where, [block])
            yield from ((suffix, LEFT_OUT, why, {}) for why in said.left_out)
            if said.words:
                first = number if not texts else first
                texts.append(said.words)
    yield from spoken()


def _attachments(message: Any, place: str) -> Iterator[tuple[str, str, str]]:
    """The texts of the attachments of a message."""
    attachments = value_get(message, "attachments", place, default=[])
    list_check(f"{place}: attachments", attachments)
    for number, attachment in enumerate(attachments, 1):
        where = f"{place} attachment {number}"
        words = text_get(attachment, "extracted_content", where, default="")
        if words.strip():
            name = text_get(attachment, "file_name", where, default="")[:MAX_TITLE_CHARACTERS]
            yield f" attachment {number}", words, name


FORMAT = Format(
    "claude", "Claude", ("conversations",), lambda record: isinstance(record.get("chat_messages"), list), _entries
)
