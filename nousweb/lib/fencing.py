"""Making untrusted text safe to stand inside a prompt: it can never look like a section of ours.

A memory that holds "\\n## Active Censors" must not open a section. Headings of our own level or above are
escaped, deeper ones are moved below ours, line breaks that only some readers honour become plain ones, and
characters that hide text are removed.
"""

import re
import unicodedata

_HEADING = re.compile(r"^(?P<indent>[ \t>*+\u200d-]*)(?P<marks>[#＃]+)", re.MULTILINE)
_SETEXT = re.compile(r"^(?P<indent> {0,3})(?P<line>=+|-+)(?=[ \t]*$)", re.MULTILINE)
_CODE_FENCE = re.compile(r"^ {0,3}(```+|~~~+)", re.MULTILINE)
_LINE_BREAKS = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_DEEPEST = 6
_HIDDEN = ("Cc", "Cf", "Cs", "Co")
# The joiner holds emoji together.
_KEPT = "\n\t\u200d"


def plain_text(text: str) -> str:
    """`text` with one kind of line break and without invisible control and formatting characters."""
    text = _LINE_BREAKS.sub("\n", text)
    return "".join(char for char in text if char in _KEPT or unicodedata.category(char) not in _HIDDEN)


def fence_line(text: str) -> str:
    """`text` on one line, for a list item: it can neither leave its item nor open a heading in it."""
    line = " ".join(plain_text(text).split())
    return "\\" + line if line[:1] in ("#", "＃") else line


def fence_block(text: str, *, level: int) -> str:
    """`text` as a block under a heading of `level` (1 to 6), with its own headings kept below that level.

    Headings deeper than 2 are moved down by `level - 2` (sections are written as if under a level 2
    heading); shallower ones are escaped, and so are underlined headings. An unclosed code fence is closed.
    """

    def demote(match: re.Match[str]) -> str:
        depth = len(match["marks"])
        if depth <= 2 or "＃" in match["marks"]:
            return f"{match['indent']}\\{match['marks']}"
        return f"{match['indent']}{'#' * min(depth + level - 2, _DEEPEST)}"

    text = plain_text(text).strip()
    text = _HEADING.sub(demote, text)
    text = _SETEXT.sub(lambda match: f"{match['indent']}\\{match['line']}", text)
    fences = _CODE_FENCE.findall(text)
    if len(fences) % 2:
        text += "\n" + fences[-1]
    return text
