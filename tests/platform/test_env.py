"""Settings from the environment: typed, and a bad value names its variable."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nousweb.lib.env import BadSetting, flag, one_of, read, whole, words

PROJECT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(("raw", "value"), [("1", True), ("Yes", True), (" on ", True), ("0", False), ("FALSE", False)])
def test_flag(raw: str, value: bool) -> None:
    assert flag(raw) is value


def test_words_leaves_out_what_is_empty() -> None:
    assert words("a, b,,c ,") == ["a", "b", "c"]


def test_unset_and_empty_give_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOUS_X", raising=False)
    assert read("NOUS_X", whole(1, 9), 5) == 5
    monkeypatch.setenv("NOUS_X", "")
    assert read("NOUS_X", whole(1, 9), 5) == 5


@pytest.mark.parametrize(
    ("raw", "parse", "reason"),
    [
        ("maybe", flag, "expected one of true"),
        ("ten", whole(1, 9), "expected a whole number$"),
        ("10", whole(1, 9), "from 1 to 9$"),
        ("xml", one_of("console", "json"), "expected one of console, json$"),
    ],
)
def test_a_bad_value_names_variable_and_reason(
    raw: str, parse: object, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOUS_X", raw)
    with pytest.raises(BadSetting, match=f"^NOUS_X='{raw}': .*{reason}"):
        read("NOUS_X", parse, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NOUS_PORT", "http"),
        ("NOUS_LOG_FORMAT", "xml"),
        ("DATABASE_URL", "mysql://db/nous"),
        ("NOUS_PRODUCTION", "maybe"),
    ],
)
def test_a_bad_value_stops_the_start_in_one_line(name: str, value: str) -> None:
    finished = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=PROJECT,
        env=os.environ | {name: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1
    assert finished.stderr.startswith(f"nous: {name}")
    assert finished.stderr.count("\n") == 1
