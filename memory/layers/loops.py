"""The text of a loop summary: what short-term memory keeps of one loop. Pure and deterministic."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.layers.event_validation import (
    CLOSING_KINDS,
    MAX_SUMMARY_CHARACTERS,
    MAX_SUMMARY_ERROR,
    MAX_SUMMARY_INPUT,
    MAX_SUMMARY_OUTPUT,
    MAX_SUMMARY_TOOLS,
    MAX_TOOL_CHARACTERS,
    OTHER_VISIBILITY_RANK,
    VISIBILITY_RANK,
)
from memory.layers.long_term_text import cut_at_sentence, fold
from memory.models import EventKind


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
