"""Snippets of a Markdown file, and what a comment on the line before each says about running it."""

import re
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "clients/python/README.md",
    *(str(file.relative_to(PROJECT)) for file in sorted((PROJECT / "docs").glob("*.md"))),
)
NOT_RUN = {
    "server": "starts the server that all other snippets call; the tests start it by the same command",
    "tests": "runs these very tests, or all of them",
    "benchmark": "takes minutes to hours, or reads data that does not come along",
    "production": "belongs to a machine in production: another database, a proxy, a service, an endpoint with a key",
    "superuser": "changes a PostgreSQL server of one's own",
    "container": "needs a container engine and its images; tests/platform/test_containers.py checks what can be",
    "package": "installs packages; tests/platform/test_installed.py installs the wheel",
    "synopsis": "shows the form of a command; the test compares it with the command's own help",
    "terminal": "asks questions at a terminal",
    "elsewhere": "runs in another product, which is not installed here",
}
"""Why a snippet may go without being run. `<!-- not run: production -->` on the line before says which."""
TEXT = ("text",)
"""Languages of what nobody runs: formulas and signatures."""


@dataclass(frozen=True)
class Snippet:
    document: str
    line: int
    language: str
    text: str
    note: str
    """What the comment before it says, if any: `answer`, `answer, refused`,
    `file: NAME`, `client configuration`, `not run: REASON`."""

    @property
    def not_run(self) -> str:
        """The reason for which it is not run, or nothing."""
        return self.note.removeprefix("not run: ") if self.note.startswith("not run") else ""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def snippets(document: str) -> list[Snippet]:
    """All fenced blocks of a file, in order, without the indentation of their fence."""
    found: list[Snippet] = []
    block: list[str] | None = None
    language, note, start, indent = "", "", 0, 0
    lines = (PROJECT / document).read_text().splitlines()
    for number, line in enumerate(lines, 1):
        fence = re.fullmatch(r"( *)```(\S*)", line)
        if block is None and fence:
            block, start, indent, language = [], number, len(fence[1]), fence[2]
            said = re.fullmatch(r" *<!-- (.*) -->", lines[number - 2])
            note = said[1] if said else ""
        elif block is not None and fence:
            found.append(Snippet(document, start, language, "\n".join(block) + "\n", note))
            block = None
        elif block is not None:
            block.append(line[indent:])
    assert block is None, f"{document}: the block of line {start} is not closed"
    return found


def indented_blocks(document: str) -> list[int]:
    """Lines at which a block begins that is marked as code by its indentation alone, outside of lists."""
    lines = (PROJECT / document).read_text().splitlines()
    found, fenced, listed = [], False, False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line.strip():
            if re.match(r"    +[^ ]", line):
                if not listed and not lines[number - 2].strip():
                    found.append(number)
            else:
                listed = bool(re.match(r" *(?:\d+\.|[-*]) ", line)) or (listed and line.startswith(" "))
    return found
