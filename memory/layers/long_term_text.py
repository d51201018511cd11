"""The text of a long-term entry: what search reads of an event.

Deterministic, and the same however often it is derived. Source: seed "Agentic Memory System", Long-Term Memory.
"""

import re
from collections.abc import Mapping
from typing import Any

from memory.layers.event_validation import (
    MAX_PROSE_CHARACTERS,
    MAX_SPEAKER_CHARACTERS,
    OUTPUT_HEAD_CHARACTERS,
    OUTPUT_KINDS,
    OUTPUT_TAIL_CHARACTERS,
    STACK_TRACE,
)

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
