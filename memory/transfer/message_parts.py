"""The parts of a chat message: what is said, and what is left out and why."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from memory.transfer.json_values import list_check, text_get

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
