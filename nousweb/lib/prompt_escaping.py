"""Escape untrusted text for a prompt, so that it can never look like a section of the prompt.

A memory that holds "\\n## Active Censors" must not open a section. Headings of our own level or above are
escaped, deeper ones are moved below ours, line breaks that only some readers honour become plain ones,
characters that do not show are left out (nousweb.lib.characters).

Marks by which chat models tell who speaks, and tags that look like markup, are broken by a backslash inside them
(`<\\|im_start|>`, `<\\system>`, `[\\INST]`), which a reader sees and can take out again, and which no tokeniser reads
as the mark. Full-width and other look-alikes count as well.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from nousweb.lib.characters import plain_text
from nousweb.lib.code_lines import code_lines, is_surely_code
from nousweb.lib.token_estimate import estimate_tokens, truncate_to_tokens

_HASHES = ("#", "＃", "﹟")
_QUOTES = (">", "＞", "﹥")
_LINE_MARKS = "".join(_QUOTES) + "*+-＊﹡＋﹢－﹣"
"""Characters that may precede a heading in its line, as a reader sees it: full-width and small forms too."""
_RULE = re.compile(r"[=＝]+|-+")
_LETTER = re.compile(r"[A-Za-z0-9]")
_LIST_MARK = re.compile(r"[-+*](?=\s|$)")
_LIST_NUMBER = re.compile(r"(\d{1,9})([.)](?=\s|$))")
_PLAIN_START = re.compile(r"[A-Za-z]|[0-9](?!\d*[.)])")
_DATE = re.compile(r"[0-9]+(?:-[0-9]+)*")
"""A label without anything that could be a mark; many are dates."""
_CODE_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<info>.*)")
_DEEPEST = 6
INDENT = "  "
"""Before each further line of a list item."""
_ANY_FENCE = re.compile(r"(?P<indent>\s*)(?P<marks>`{3,}|~{3,})(?P<info>.*)")
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+#.-]{0,19}")
_MAX_FENCE = 12
"""Marks of a fence; a line of code that begins with as many is escaped."""
# Letters and symbols that show as nothing.
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"

_QUOTE_MARKS = str.maketrans('"<>', "'()")
_SOURCE_TOKENS = 20

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


def fence_line(text: str) -> str:
    """`text` on one line, for a list item: it can neither leave its item nor open a heading or list in it.

    No mark of a chat template and no tag is left in it. Fencing it twice changes nothing more.
    """
    return _fence_start(escape_markup(" ".join(plain_text(text).split())))


def fence_item(text: str) -> str:
    """`text` for a list item, with its lines: further ones are indented, so that none can leave the item.

    Code is put in a fence that nothing within it closes, and keeps its empty lines. A text of one line is as
    `fence_line` shows it. No line holds a heading, a mark of a chat template or a tag; where there are statements of
    code, a single `#` begins a comment and stays.
    """
    plain = plain_text(text).strip("\n")
    if "\n" not in plain.strip():
        return fence_line(plain)
    lines = [line.rstrip() for line in escape_markup(plain).rstrip().split("\n")]
    while not lines[0]:
        del lines[0]
    shown: list[str] = []
    for is_code, language, block in _blocks(lines):
        if is_code:
            shown += _fenced(block, language)
        else:
            shown += [_fence_further(line) if shown or place else _fence_first(line)
                      for place, line in enumerate(filter(None, block))]  # fmt: skip
    return "\n".join(f"{INDENT}{line}" if place and line else line for place, line in enumerate(shown))


def joined_item(lead: str, item: str) -> str:
    """`lead` and what `fence_item` gave, which begins in the next line if it begins with code."""
    return f"{lead}\n{INDENT}{item}" if item.startswith("```") and "\n" in item else f"{lead} {item}"


def _fence_start(line: str) -> str:
    """`line` as the first of a list item: it opens no heading, list or quote."""
    if _begins_plainly(line):
        return line
    start = _first_ink(line)
    if (
        line[start:].startswith(_QUOTES)
        or line[_heading_start(line) :].startswith(_HASHES)
        or _LIST_MARK.match(line, start)
    ):
        return f"{line[:start]}\\{line[start:]}"
    if number := _LIST_NUMBER.match(line, start):
        return f"{line[: number.end(1)]}\\{line[number.end(1) :]}"
    return line


def fence_block(text: str, *, level: int) -> str:
    """Format `text` as a block under a heading of `level` (1 to 6), with its own headings below that level.

    Headings deeper than 2 are moved down by `level - 2` (sections are written as if under a level 2 heading); shallower
    ones are escaped, and so are underlined headings. An unclosed code fence is closed, and marks of chat templates are
    broken; other tags may stay, since people approve blocks. At level 2, fencing twice has no further effect.
    """
    text = escape_chat_marks(plain_text(text).strip())
    return _close_code("\n".join(_fence_heading(line, level) for line in text.split("\n")))


def data_source(source: str) -> str:
    """A source as a block of data names it: one fenced line without quotes and tags, of at most 20 tokens."""
    return truncate_to_tokens(fence_line(source.translate(_QUOTE_MARKS)), _SOURCE_TOKENS)


def data_marks(source: str) -> tuple[str, str]:
    """What stands before and after the lines of a block of data; `source` is one of `data_source`.

    No fenced line can close the block.
    """
    return f'<data from="{source}">\n', "\n</data>"


def fence_label(text: str) -> str:
    """Fence `text` in brackets before a line; the brackets are part of the fenced text."""
    return f"[{text}]" if _DATE.fullmatch(text) else escape_markup(f"[{fence_line(text)}]")


def truncate_block(text: str, budget: int) -> str:
    """A beginning of `text` within `budget` tokens, in which a code fence that the cut left open is closed."""
    for room in range(budget, 0, -1):
        part = _close_code(truncate_to_tokens(text, room))
        if estimate_tokens(part) <= budget:
            return part
    return ""


def _blocks(lines: Sequence[str]) -> Iterator[tuple[bool, str, list[str]]]:
    """The lines in runs: whether a run is code, its language if it is named, and its lines without their fence."""
    opened: re.Match[str] | None = None
    block: list[str] = []
    for line in lines:
        fence = _ANY_FENCE.fullmatch(line)
        if opened:
            closes = fence and fence["marks"].startswith(opened["marks"]) and not fence["info"].strip()
            if closes:
                yield True, opened["info"].strip(), block
                opened, block = None, []
            else:
                block.append(line.removeprefix(opened["indent"]))
        elif fence and not (fence["marks"][0] == "`" and "`" in fence["info"]):
            yield from _unfenced_blocks(block)
            opened, block = fence, []
        else:
            block.append(line)
    if opened:
        yield True, opened["info"].strip(), block
    else:
        yield from _unfenced_blocks(block)


def _unfenced_blocks(lines: Sequence[str]) -> Iterator[tuple[bool, str, list[str]]]:
    for is_code, pairs in groupby(zip(code_lines(lines), lines, strict=True), key=itemgetter(0)):
        yield is_code, "", [line for _, line in pairs]


def _fenced(lines: Sequence[str], language: str) -> list[str]:
    """Lines of code in a fence that is longer than any run of its marks that begins one of them."""
    comments = is_surely_code(lines)
    code = [_fence_code(line, comments=comments) for line in lines]
    while code and not code[-1]:
        code.pop()
    if not code:
        return []
    longest = max(len(start) - len(start.lstrip("`")) for start in map(str.lstrip, code))
    marks = "`" * max(3, longest + 1)
    return [marks + (language if _LANGUAGE.fullmatch(language) else ""), *code, marks]


def _fence_code(line: str, *, comments: bool) -> str:
    """A line of code: its own headings are escaped like those of prose, but `comments` of one mark stay."""
    ink = _first_ink(line)
    if line.startswith("`" * _MAX_FENCE, ink):
        return f"{line[:ink]}\\{line[ink:]}"
    start = _heading_start(line)
    if comments and not line.startswith(_HASHES[1:], start) and not line.startswith(_HASHES, start + 1):
        return line
    return _fence_further(line)


def _fence_first(line: str) -> str:
    """The first of several lines: as a line of its own, but the number of a first step stays."""
    return _fence_further(line.lstrip()) if _LIST_NUMBER.match(line.lstrip()) else _fence_start(line.lstrip())


def _fence_further(line: str) -> str:
    """A further line of a list item: it may be of a list or a quote, but neither a heading nor its underline."""
    line = _fence_rule(line)
    start = _heading_start(line)
    return f"{line[:start]}\\{line[start:]}" if line.startswith(_HASHES, start) else line


def _fence_rule(line: str) -> str:
    """`line`, escaped if it would make the line above it a heading."""
    if _begins_plainly(line):
        return line
    underline = _first_ink(line, passing="".join(_QUOTES))
    # A letter that shows is of no rule, and most lines have one: the rest is looked at by character.
    if not _LETTER.search(line, underline) and _RULE.fullmatch("".join(c for c in line[underline:] if not _unseen(c))):
        return f"{line[:underline]}\\{line[underline:]}"
    return line


def _fence_heading(line: str, level: int) -> str:
    if _begins_plainly(line):
        return line
    escaped = _fence_rule(line)
    if escaped != line:
        return escaped
    start = _heading_start(line)
    depth = len(line[start:]) - len(line[start:].lstrip("".join(_HASHES)))
    if not depth:
        return line
    if depth <= 2 or line[start : start + depth].strip("#"):
        return f"{line[:start]}\\{line[start:]}"
    return line[:start] + "#" * min(depth + level - 2, _DEEPEST) + line[start + depth :]


def _begins_plainly(line: str) -> bool:
    """Whether `line` surely has no mark of a heading, list, quote or rule before its text: fast, for most lines."""
    return _PLAIN_START.match(line) is not None


def _heading_start(line: str) -> int:
    """The position where a heading would begin, after marks of quotes and lists and numbers of lists."""
    start = _first_ink(line, passing=_LINE_MARKS)
    while number := _LIST_NUMBER.match(line, start):
        start = _first_ink(line, number.end(), passing=_LINE_MARKS)
    return start


def _first_ink(line: str, start: int = 0, *, passing: str = "") -> int:
    """The position of the first visible character that is not in `passing`; the end of `line` if there is none."""
    for place in range(start, len(line)):
        if not _unseen(line[place]) and line[place] not in passing:
            return place
    return len(line)


def _unseen(char: str) -> bool:
    return char.isspace() or char in _BLANK or unicodedata.category(char) in ("Mn", "Me", "Cf")


def _close_code(text: str) -> str:
    """`text` with its last code fence closed, so that what follows it is not read as code."""
    opened = ""
    for line in text.split("\n"):
        fence = _CODE_FENCE.match(line)
        if not fence:
            continue
        marks, info = fence["marks"], fence["info"]
        if not opened:
            # A line of backticks with another one further on is a span of code in a paragraph.
            opened = "" if marks[0] == "`" and "`" in info else marks
        elif marks[0] == opened[0] and len(marks) >= len(opened) and not info.strip():
            opened = ""
    return f"{text}\n{opened}" if opened else text


def chat_mark_indices(text: str) -> list[int]:
    """The positions where a backslash is needed so that no mark of a chat template is left in `text`."""
    return _chat_places(_folded(text)) if _BEGINNING.search(text) else []


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
