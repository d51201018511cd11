"""Texts that derive from others: of a long-term entry, a loop's summary, an episode without a judge.

Deterministic, and the same however often they are derived. Source: seed "Agentic Memory System".
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.layers.event_validation import (
    CLOSING_KINDS,
    MAX_PROSE_CHARACTERS,
    MAX_SPEAKER_CHARACTERS,
    MAX_SUMMARY_CHARACTERS,
    MAX_SUMMARY_ERROR,
    MAX_SUMMARY_INPUT,
    MAX_SUMMARY_OUTPUT,
    MAX_SUMMARY_TOOLS,
    MAX_TOOL_CHARACTERS,
    OTHER_VISIBILITY_RANK,
    OUTPUT_HEAD_CHARACTERS,
    OUTPUT_KINDS,
    OUTPUT_TAIL_CHARACTERS,
    STACK_TRACE,
    VISIBILITY_RANK,
)
from memory.models import EventKind

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
    if len(found) > MAX_SENTENCES:
        return [*found[: MAX_SENTENCES // 2], *found[-MAX_SENTENCES // 2 :]]
    return found


def _telling(sentence: str) -> list[str]:
    return [word for word in (each.casefold() for each in _WORD.findall(sentence)) if word not in _COMMON]
