"""Marks by which chat models tell who speaks, and tags that look like markup: where they stand, and made harmless.

A mark is made harmless by a backslash inside it (`<\\|im_start|>`, `<\\system>`, `[\\INST]`), which a reader sees
and can take out again, and which no tokeniser reads as the mark. Full-width and other look-alikes count as well.
"""

import re
import unicodedata

_ROLES = (
    r"system|user|assistant|human|developer|sys|inst|tools?|tool_(?:calls?|use|code|responses?|results?|outputs?)"
    r"|available_tools|functions?|function_(?:calls?|responses?|results?|outputs?)|invoke|s|bos|eos|pad|unk|mask"
    r"|(?:start|end|begin)_of_(?:turn|text|sentence|image|speech)|(?:im|turn)_(?:start|end)|endoftext|h[1-6]"
)
_STEERING = (
    r"instructions?|prompt|system[\w-]+|context|message|memor(?:y|ies)|identity|rules?|think(?:ing)?|admin|important"
    r"|parameter|override|policy|role|script|style"
)
_LINE_START = r"(?:^|(?<=\n))"
# Each matches the one character after which, or before which, the backslash goes.
_CHAT_AFTER = re.compile(
    rf"<(?=\s*\||\s*!\s*(?:-|\[|doctype)|\s*/?\s*(?:{_ROLES})(?![\w-]))"
    r"|\[(?=\s*/?\s*(?:inst|sys|system_prompt|tool_(?:calls|results|content)|available_tools)\s*\])",
    re.IGNORECASE,
)
_CHAT_BEFORE = re.compile(
    r"(?:(?<=\n)|(?<=\n[ \t]))[ \t]*\n\s*(?:human|assistant|system|user)[ \t]*(?P<at>:)"
    rf"|{_LINE_START}[ \t]*(?P<hashes>#)#+[ \t]*(?:instruction|response|human|assistant|system|user)[ \t]*:[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_TAG_AFTER = re.compile(
    rf"<(?=\s*/\s*[^\W\d_]|\s*\?\s*\w|\s*(?:{_STEERING})(?![\w-]))"
    # A bracket right after a word is code: List<String>.
    r"|(?<!\w)<(?=\s*[^\W\d_][^<>]*>)",
    re.IGNORECASE,
)
# Without one of these, or a full-width form of it, a text holds no mark.
_BEGINNING = re.compile("[<\\[#\n\uff1c\ufe64\uff3b\ufe47\uff03\ufe5f]")
# Bars and strokes that compatibility folding leaves as they are.
_LOOK_ALIKES = {ord(bar): "|" for bar in "│┃║∣❘ǀ∥⏐￨¦"} | {ord("∕"): "/", ord("⁄"): "/"}


def chat_mark_indices(text: str) -> list[int]:
    """Where a backslash has to go so that no mark of a chat template is left in `text`."""
    if not _BEGINNING.search(text):
        return []
    return _chat_places(_folded(text))


def escape_chat_marks(text: str) -> str:
    """`text` without a mark of a chat template; doing it twice changes nothing more."""
    return _with_backslashes(text, chat_mark_indices(text))


def escape_markup(text: str) -> str:
    """`text` with neither a mark of a chat template nor a tag; doing it twice changes nothing more."""
    if not _BEGINNING.search(text):
        return text
    folded = _folded(text)
    places = {*_chat_places(folded), *[found.end() for found in _TAG_AFTER.finditer(folded)]}
    return _with_backslashes(text, sorted(places)) if places else text


def mark_at(text: str, index: int) -> str:
    """The mark that the backslash at `index` would break, for a message: `<|im_start|>`."""
    line_start = text.rfind("\n", 0, index) + 1
    folded = _folded(text)
    start = max(folded.rfind("<", line_start, index), folded.rfind("[", line_start, index), line_start)
    ends = [end + 1 for close in ">]:\n" if (end := folded.find(close, index)) >= 0]
    return text[start : min([*ends, start + 40, len(text)])].strip()


def _chat_places(folded: str) -> list[int]:
    places = {found.end() for found in _CHAT_AFTER.finditer(folded)}
    if "\n" in folded or "#" in folded:
        for found in _CHAT_BEFORE.finditer(folded):
            places.add(found.start("at" if found["at"] else "hashes"))
    return sorted(places)


def _folded(text: str) -> str:
    """`text` with look-alikes levelled, each character in its place."""
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFKC", text):
        text = "".join(
            folded if len(folded := unicodedata.normalize("NFKC", character)) == 1 else character for character in text
        )
    return text.translate(_LOOK_ALIKES)


def _with_backslashes(text: str, places: list[int]) -> str:
    if not places:
        return text
    parts = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    return "\\".join(parts)
