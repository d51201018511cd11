"""Tell which lines of a text are code, so that a prompt keeps them as they are. A guess: it changes no words."""

import re
from collections.abc import Sequence
from itertools import groupby

MAX_LOOKED_AT = 400
"""Characters of a line that are looked at."""
MIN_RUN = 2
"""Lines that make code, unless they are indented as a block."""

_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")
_TABLE_ROW = re.compile(r"\s*\|.*\|\s*$|\s*[-:]{3,}\s*\|")
_BLOCK_INDENT = re.compile(r" {4}|\t")
_CODE = re.compile(
    r"""\s*(?:
        (?:async\s+)?def\s+\w+\s*\(|class\s+\w+\s*[:({]|from\s+[\w.]+\s+import\s|import\s+[\w.{}*,\s"'@/-]+;?$|@\w[\w.]*(?:\(|$)
        |(?:if|elif|for|while|with|except|match|case)\b.*:$|(?:else|try|finally):$|(?:return|raise|yield|await)\b(?!.*[.!?]$)
        |(?:export\s+)?(?:const|let|var|function|fn|func|pub|struct|enum|interface|type)\s+\w+.*[={(;]
        |(?:if|for|while|switch)\s*\(|[\w.]+\(.*\)[;:]?$|[\w.\[\]"'*,\ ]{1,60}\s(?:[-+*/|:]?=)\s\S|[A-Z_]+=\S
        |[{}\[\])]+[;,]?$|(?:fi|done|esac|end|EOF|then|do)$|"[^"]*"\s*:|[a-z_][\w.-]*:$|\#!|\$\s\S|>>>\s|\.\.\.\s
        |.*;\s*(?:do|then)$|Traceback\s\(most|File\s"|at\s[\w.$]+\(|@@\s|(?:\+\+\+|---)\s\S|[{\[]$
        |(?:sudo|cd|git|docker|kubectl|helm|npm|npx|yarn|pip3?|uv|curl|wget|export|echo|ls|rm|cp|mv|mkdir|make|python3?
          |psql|ssh|scp|apt|apt-get|systemctl|journalctl|cat|grep|sed|awk|chmod|chown|source|set|tar|find|terraform
          |cargo|go|node|pytest|bash|sh|\./[\w./-]+)\s(?!.*[.!?]$)
    )""",
    re.VERBOSE,
)
_SQL = re.compile(
    r"\s*(?:SELECT|INSERT\sINTO|UPDATE|DELETE\sFROM|CREATE|ALTER|DROP|WITH|FROM|WHERE|(?:LEFT\s|INNER\s)?JOIN"
    r"|GROUP\sBY|ORDER\sBY|VALUES|SET|BEGIN|COMMIT|LIMIT)\b(?!.*[.!?]$)"
)
_CODE_END = re.compile(r"(?:[{(\[]|\\|&&|[=({}].*;|\);?)$")
_ENDS = (".", "!", "?", ":")
_WORD = re.compile(r"[^\W\d_]{2}")
_COMMENT = re.compile(r"\s*(?:#|//|--\s|/?\*)")


def code_lines(lines: Sequence[str]) -> list[bool]:
    """For each line whether it is code: several lines of a programming language or a shell, or an indented block."""
    looked_at = [line[:MAX_LOOKED_AT].rstrip() for line in lines]
    found = [_is_code(line) for line in looked_at]
    listed = False
    for place, line in enumerate(looked_at):
        if not line:
            continue
        if not line[0].isspace():
            listed = bool(_LIST_ITEM.match(line))
        block = not listed and bool(_BLOCK_INDENT.match(line)) and not _LIST_ITEM.match(line)
        follows = place > 0 and found[place - 1] and (line[0].isspace() or bool(_COMMENT.match(line)))
        found[place] = found[place] or block or follows
    for place in range(len(lines) - 2, -1, -1):
        line = looked_at[place]
        # Comments and indented lines before code, and empty lines within it, belong to it.
        before = bool(line) and ((line[0].isspace() and not listed) or bool(_COMMENT.match(line)))
        found[place] = found[place] or (found[place + 1] and before)
    return _without_short_runs(looked_at, _bridged(looked_at, found))


def is_surely_code(lines: Sequence[str]) -> bool:
    """Whether one of the lines is written as only code is."""
    looked_at = [line[:MAX_LOOKED_AT].rstrip() for line in lines]
    return any(_WORD.search(line) and (_CODE.match(line) or _SQL.match(line)) for line in looked_at)


def is_structured(text: str) -> bool:
    """Whether the lines of `text` belong together in their order: code, a table or numbered steps."""
    lines = text.split("\n")
    if len(lines) < MIN_RUN:
        return False
    return (
        "```" in text
        or "~~~" in text
        or any(_LIST_ITEM.match(line) or _TABLE_ROW.match(line[:MAX_LOOKED_AT]) for line in lines)
        or any(code_lines(lines))
    )


def _is_code(line: str) -> bool:
    if not line or _LIST_ITEM.match(line) or _TABLE_ROW.match(line):
        return False
    return bool(_CODE.match(line) or _SQL.match(line) or _CODE_END.search(line))


def _bridged(lines: Sequence[str], found: Sequence[bool]) -> list[bool]:
    """`found` with the empty lines between two lines of code, and a single other line that ends no sentence."""
    bridged = list(found)
    for place in range(1, len(lines) - 1):
        line = lines[place]
        if found[place - 1] and found[place + 1] and line and not (_LIST_ITEM.match(line) or line.endswith(_ENDS)):
            bridged[place] = True
    found = list(bridged)
    last = None
    for place, line in enumerate(lines):
        if not line:
            continue
        if found[place] and last is not None and found[last]:
            bridged[last:place] = [True] * (place - last)
        last = place
    return bridged


def _without_short_runs(lines: Sequence[str], found: Sequence[bool]) -> list[bool]:
    kept: list[bool] = []
    for is_code, places in groupby(range(len(found)), key=found.__getitem__):
        run = [lines[place] for place in places]
        said = list(filter(None, run))
        short = 0 < len(said) < MIN_RUN and not _BLOCK_INDENT.match(said[0])
        kept += [is_code and not short] * len(run)
    return kept
