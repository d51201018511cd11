"""What a template may not be: a wall of text, a fragment that reads what nobody gave it, a page with its own styles."""

import re
from pathlib import Path

TEMPLATES = Path(__file__).parent.parent / "templates"
MAX_LINE = 120
STYLED = {"components/head.html", "base_standalone.html"}
"""Where stylesheets are listed: once for all pages, and for the pages that must stand alone."""


def test_no_line_is_over_120_characters():
    long = [
        f"{name}:{number} has {len(line)}"
        for name, source in _sources()
        for number, line in enumerate(source.splitlines(), 1)
        if len(line) > MAX_LINE
    ]
    assert not long


def test_each_include_names_what_its_fragment_may_read():
    open_ones = [
        f"{name}: {tag}"
        for name, source in _sources()
        for tag in re.findall(r"{%\s*include\b.*?%}", source)
        if not re.search(r"\sonly\s*%}$", tag)
    ]
    assert not open_ones


def test_stylesheets_come_from_the_base():
    assert {name for name, source in _sources() if re.search(r'rel="?stylesheet|<style\b', source)} <= STYLED


def _sources() -> list[tuple[str, str]]:
    return [(str(path.relative_to(TEMPLATES)), path.read_text()) for path in sorted(TEMPLATES.rglob("*.html"))]
