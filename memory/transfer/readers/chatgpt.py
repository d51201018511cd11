"""ChatGPT: conversations.json of its data export, alone or in the archive.

A conversation is a loop, a message an event. A conversation is a tree, since answers can be asked for again: what is
read is the branch that was open last.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from memory.transfer.json_stream import Record
from memory.transfer.json_values import BadEntry, list_check, text_get, texts_kept, value_get
from memory.transfer.readers.entry import EVENT, Entry, Format, ReadOptions, attempt, content_id, skipped, source_moment

MAX_TITLE_CHARACTERS = 200
THOUGHTS = ("thoughts", "reasoning_recap")
INSTRUCTIONS = ("user_editable_context", "model_editable_context")
TEXTS = ("text", "result", "content")
"""Where contents other than parts keep their words."""


def _fits(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("mapping"), dict)


def _entries(record: Record, options: ReadOptions) -> Iterator[Entry]:
    where, talk = record.place, record.value
    mapping = value_get(talk, "mapping", where)
    if not isinstance(mapping, dict):
        raise BadEntry(where, "mapping is not an object.")
    name = (
        text_get(talk, "conversation_id", where, default="")
        or text_get(talk, "id", where, default="")
        or content_id(sorted(mapping))
    )
    title = text_get(talk, "title", where, default="")[:MAX_TITLE_CHARACTERS]
    branch = _branch(mapping, talk.get("current_node"), where)
    begun = talk.get("create_time")
    for number, key in enumerate(branch, 1):
        place = f"{where} message {number}"
        message = mapping[key].get("message")
        if message is None:
            continue
        yield from attempt(_message, message, place, key, name, title, begun, options)
    for key in mapping.keys() - set(branch):
        if isinstance(mapping[key], dict) and mapping[key].get("message") is not None:
            yield skipped(f"{where} node {key}", "on a branch that was left")


def _branch(mapping: dict[str, Any], leaf: Any, where: str) -> list[str]:
    """Keys from the root to the leaf that was open, else to the last of the last answers."""
    if not isinstance(leaf, str) or leaf not in mapping:
        leaf = _last_leaf(mapping, where)
    branch: list[str] = []
    passed: set[str] = set()
    key = leaf
    while isinstance(key, str):
        if key in passed:
            raise BadEntry(where, "its messages follow each other in a circle.")
        node = mapping.get(key)
        if not isinstance(node, dict):
            raise BadEntry(where, f"the node {key[:60]!r} is missing.")
        passed.add(key)
        branch.append(key)
        key = node.get("parent")
    return branch[::-1]


def _last_leaf(mapping: dict[str, Any], where: str) -> str | None:
    key = next((key for key, node in mapping.items() if isinstance(node, dict) and not node.get("parent")), None)
    passed: set[str] = set()
    while key is not None and key not in passed:
        passed.add(key)
        node = mapping.get(key)
        children = node.get("children") if isinstance(node, dict) else None
        following = children[-1] if isinstance(children, list) and children else None
        if not isinstance(following, str) or following not in mapping:
            return key
        key = following
    if mapping:
        raise BadEntry(where, "nothing says where the conversation begins.")
    return None


def _message(
    message: Any, place: str, key: str, conversation: str, title: str, begun: Any, options: ReadOptions
) -> Iterator[Entry]:
    author = value_get(message, "author", place)
    role = text_get(author, "role", place)
    content = value_get(message, "content", place, default={})
    kind = text_get(content, "content_type", place, default="text")
    metadata = message.get("metadata")
    hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation") is True
    words = _words(content, kind, place)
    if kind in THOUGHTS:
        yield skipped(place, "thoughts of the model")
    elif not words.strip():
        yield skipped(place, "a message without words")
    elif kind in INSTRUCTIONS:
        yield skipped(place, "custom instructions, which would be identity")
    elif hidden or message.get("weight") == 0:
        yield skipped(place, "a message that the conversation does not show")
    else:
        recipient = text_get(message, "recipient", place, default="all")
        tool = text_get(author, "name", place, default="")
        event = {
            "user": (options.input_kind, {}),
            "assistant": (options.output_kind, {})
            if recipient == "all"
            else ("tool_call", {"tool": recipient[:MAX_TITLE_CHARACTERS]}),
            "tool": ("error" if kind == "system_error" else "tool_result", {"tool": tool} if tool else {}),
            "system": ("system_event", {"role": "system"}),
        }.get(role)
        if event is None:
            raise BadEntry(place, f"role {role[:40]!r} is not known.")
        model = texts_kept(metadata, "model_slug") if isinstance(metadata, dict) else {}
        yield Entry(
            EVENT,
            place,
            f"{conversation}/{text_get(message, 'id', place, default='') or key}",
            conversation,
            {
                "kind": event[0],
                "content": words,
                "loop_id": f"chatgpt/{conversation}"[:100].strip(),
                "ts": source_moment(place, message.get("create_time")) or source_moment(place, begun),
                "metadata": {**event[1], **model, **({"title": title} if title else {})},
            },
        )


def _words(content: Any, kind: str, place: str) -> str:
    """What a message says: its texts, and in brackets what else there is."""
    parts = content.get("parts")
    if parts is None:
        name = next((name for name in TEXTS if isinstance(content.get(name), str)), None)
        words = content[name] if name else ""
        title = content.get("title")
        return f"{title}\n{words}" if isinstance(title, str) and title and words else words
    list_check(f"{place}: parts", parts)
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            text = part.get("text")
            held = part.get("content_type")
            texts.append(text if isinstance(text, str) else f"[{held if isinstance(held, str) else kind}]")
        elif part is not None:
            raise BadEntry(place, "a part is neither text nor an object.")
    return "\n".join(text for text in texts if text)


FORMAT = Format("chatgpt", "ChatGPT", ("conversations",), _fits, _entries)
