"""ChatGPT: conversations.json of its data export, alone or in the archive.

A conversation is a loop, a message an event. A conversation is a tree, since answers can be asked for again: what is
read is the branch that was open last.
"""

from collections.abc import Iterator
from typing import Any

from memory.transfer.json_stream import BadEntry, Record, list_check, text_get, texts_kept, value_get
from memory.transfer.readers.entry import (
    CITATIONS,
    EVENT,
    NOT_REMEMBERED,
    THOUGHTS,
    Entry,
    Format,
    MessageText,
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
INSTRUCTIONS = ("user_editable_context", "model_editable_context")
TEXTS = ("text", "result", "content")
"""Where contents other than parts keep their words."""


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
    if talk.get("is_do_not_remember") is True or talk.get("is_temporary_chat") is True:
        yield from (skipped(f"{where} node {key}", NOT_REMEMBERED) for key in mapping if _has_message(mapping[key]))
        return
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
        if _has_message(mapping[key]):
            yield skipped(f"{where} node {key}", "on a branch that was left")


def _has_message(node: Any) -> bool:
    return isinstance(node, dict) and node.get("message") is not None


def _branch(mapping: dict[str, Any], leaf: Any, where: str) -> list[str]:
    """Keys from the root to the leaf that was open, else to the latest one.

    Of several trees, between which nothing is known but the time, each has its branch, the earliest first.
    """
    opened = leaf if isinstance(leaf, str) and leaf in mapping else None
    parents = _parents(mapping, whole=opened is not None)
    children: dict[str, list[str]] = {}
    for key, parent in parents.items():
        children.setdefault(parent, []).append(key)
    branches = [_path(mapping, parents, opened, where)] if opened is not None else []
    for root in (key for key in mapping if key not in parents):
        nodes = [root]
        for key in nodes:
            nodes += children.get(key, ())
        leaves = [key for key in nodes if key not in children and _has_message(mapping[key])]
        if leaves and not (branches and opened is not None and branches[0][0] == root):
            # Of one moment, the last in the file counts as the latest.
            latest = max(reversed(leaves), key=lambda key: _moment(mapping[key]))
            branches.append(_path(mapping, parents, latest, where))
    if mapping and not branches and not any(key not in parents for key in mapping):
        raise BadEntry(where, "nothing says where the conversation begins.")
    begun = {branch[0]: next(filter(None, (_moment(mapping[key]) for key in branch)), 0.0) for branch in branches}
    branches.sort(key=lambda branch: begun[branch[0]])
    return [key for branch in branches for key in branch]


def _parents(mapping: dict[str, Any], *, whole: bool) -> dict[str, str]:
    """The parent of each node, as it says or else its parent's list of children; with `whole` missing ones too."""
    parents: dict[str, Any] = {}
    for key, node in mapping.items():
        children = node.get("children") if isinstance(node, dict) else None
        for child in children if isinstance(children, list) else ():
            if isinstance(child, str):
                parents.setdefault(child, key)
    for key, node in mapping.items():
        if isinstance(node, dict) and node.get("parent"):
            parents[key] = node["parent"]
    return {
        key: parent
        for key, parent in parents.items()
        if key in mapping and isinstance(parent, str) and (whole or parent in mapping)
    }


def _path(mapping: dict[str, Any], parents: dict[str, Any], leaf: str, where: str) -> list[str]:
    """Keys from the root to `leaf`. Raises BadEntry."""
    branch: list[str] = []
    passed: set[str] = set()
    key: str | None = leaf
    while key is not None:
        if key in passed:
            raise BadEntry(where, "its messages follow each other in a circle.")
        if not isinstance(mapping.get(key), dict):
            raise BadEntry(where, f"the node {key[:60]!r} is missing.")
        passed.add(key)
        branch.append(key)
        key = parents.get(key)
    return branch[::-1]


def _moment(node: Any) -> float:
    """When the message of a node was written, in seconds since 1970; 0 if it does not say."""
    message = node.get("message")
    try:
        moment = source_moment("", message.get("create_time") if isinstance(message, dict) else None)
    except BadEntry:
        return 0.0
    return moment.timestamp() if moment else 0.0


def _message(
    message: Any, place: str, key: str, conversation: str, title: str, begun: Any, options: ReadOptions
) -> Iterator[Entry]:
    author = value_get(message, "author", place)
    role = text_get(author, "role", place)
    content = value_get(message, "content", place, default={})
    kind = text_get(content, "content_type", place, default="text")
    metadata = message.get("metadata")
    hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation") is True
    said = _words(content, kind, place, any_kind=role == "tool")
    why = THOUGHTS if role == "assistant" and message.get("channel") == "analysis" else kind_left_out(kind)
    words = citations_removed(said.words) if role == "assistant" else said.words
    yield from (skipped(place, reason) for reason in said.left_out if not why)
    if why:
        yield skipped(place, why)
    elif not words.strip():
        yield skipped(place, "a message without words")
    elif kind in INSTRUCTIONS:
        yield skipped(place, "custom instructions, which would be identity")
    elif hidden or message.get("weight") == 0:
        yield skipped(place, "a message that the conversation does not show")
    else:
        if words != said.words:
            yield skipped(place, CITATIONS)
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


def _words(content: Any, kind: str, place: str, *, any_kind: bool) -> MessageText:
    """The text of a message, with media named in brackets."""
    parts = content.get("parts")
    if parts is None:
        name = next((name for name in TEXTS if isinstance(content.get(name), str)), None)
        words = content[name] if name else ""
        title = content.get("title")
        return MessageText(f"{title}\n{words}" if isinstance(title, str) and title and words else words)
    list_check(f"{place}: parts", parts)
    for part in parts:
        if not isinstance(part, str | dict | None):
            raise BadEntry(place, "a part is neither text nor an object.")
    return message_text(
        place, [part for part in parts if part is not None], kind_name="content_type", any_kind=any_kind
    )


FORMAT = Format(
    "chatgpt", "ChatGPT", ("conversations",), lambda record: isinstance(record.get("mapping"), dict), _entries
)
