"""Words that docs/glossary.md has replaced come back neither in code nor on pages nor in documents."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

IDENTIFIERS = (
    r"known_at",
    r"true_at",
    r"\w*_told|told_until",
    r"Filing|refiled|is_filed|REFILED",
    r"Shown",
    r"Read|Decided|Asked|Fetched|Found|Loaded|Prepared",
    r"Then|\w+_then",
    r"Probe|Compared|PageScope|shown_memory|shown_check",
    r"remedy|remedies",
    r"gates",
    r"settles|fact_dedup",
    r"LifecycleRun|run_tell|NotNow|FIRST_PAUSE",
    r"strangers_adopt|forgetting|sweeping|runs_sweep",
    r"TURNS|UNSAID|Repeated",
    r"narrowed",
    r"tether|Membership",
    r"Blast|BlastRow|blast_radius",
    r"candidates_judge|ContextMaterial|material_load|fixed_fill|Contests|Arranged|is_brought",
    r"Surroundings|Reception|CensorInForce|profile_in_force|tracer_in_force",
    r"seen_by|of_seen_agents|agent_held|agent_erasing|agent_again|former_goes_on|silent_until|approval_barred",
    r"KeptColumn|KeptSecret|FrontWorker|too_often|rows_together|session_tuned|FileForm|SELECTED_MOST",
)
"""Names of the code, each an alternative of a regular expression."""

PHRASES = (
    r"two clocks|both clocks|clocks of the (?:fact|world|agent)",
    r"\b(?:always|was|were|is|be|been|not|never|no longer) told\b",
    r"\b(?:re)?filed\b",
    r"\banew\b",
    r"known to the agent",
    r"Deal with \d|What needs you|changes of identity to decide",
    r"\bheld back\b|\bpoisoning gate\b|\bfound wrong\b",
    r"Nothing needs you|\bafresh\b|\bby the lot\b|[Ll]east importance",
)
"""Phrases of pages and documents, and of comments."""

FILES = (
    r"shown|decided|words|said|past|blast|reading|shape|waiting|tether|membership|placement|sweeping|forgetting"
    r"|parts|page_scope|profile_in_force|kept_secrets|fixed_fill|doors"
)
"""Names of files, without what follows the dot."""


@cache
def _tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return listed.splitlines()


@cache
def _text(path: Path) -> str:
    return path.read_text()


def _files(*suffixes: str) -> Iterator[Path]:
    for name in _tracked():
        if name.endswith(suffixes) and "/migrations/" not in name and name != "tests/test_glossary.py":
            yield ROOT / name


def _lines_with(pattern: str, *suffixes: str, without: tuple[str, ...] = ()) -> list[str]:
    """The lines of tracked files that hold `pattern`, as "path:number: line"."""
    found = []
    for path in _files(*suffixes):
        name = str(path.relative_to(ROOT))
        if name.startswith(without):
            continue
        text = _text(path)
        # No pattern looks beyond its line, so that what a whole text does not hold, none of its lines does.
        if not re.search(pattern, text):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(pattern, line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    return found


@pytest.mark.parametrize("names", IDENTIFIERS)
def test_identifiers_that_were_replaced_are_gone(names):
    assert not _lines_with(rf"(?<![\w'\"-])(?:{names})(?![\w'\"-])(?=\W*[.(\[:=,)])", ".py", without=("tests/",))


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_that_were_replaced_are_gone_from_code_pages_and_documents(phrase):
    suffixes = (".py", ".html", ".md", ".js", ".css", "openapi.json")
    assert not _lines_with(phrase, *suffixes, without=("tests/", "benchmarks/"))


def test_files_have_none_of_the_names_that_were_replaced():
    assert not [path for path in _files("") if re.fullmatch(FILES, path.stem)]
