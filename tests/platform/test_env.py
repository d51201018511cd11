"""Settings from the environment: typed, and a bad value names its variable."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nousweb.lib.env import BadSetting, amount, flag, one_of, read, whole, words

PROJECT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(("raw", "value"), [("1", True), ("Yes", True), (" on ", True), ("0", False), ("FALSE", False)])
def test_env_flag(raw: str, value: bool) -> None:
    assert flag(raw) is value


def test_env_words_leave_out_what_is_empty() -> None:
    assert words("a, b,,c ,") == ["a", "b", "c"]


def test_env_unset_and_empty_give_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOUS_X", raising=False)
    assert read("NOUS_X", whole(1, 9), 5) == 5
    monkeypatch.setenv("NOUS_X", "")
    assert read("NOUS_X", whole(1, 9), 5) == 5


@pytest.mark.parametrize(
    ("raw", "parse", "reason"),
    [
        ("maybe", flag, "expected one of true"),
        ("ten", whole(1, 9), "expected a whole number$"),
        ("ten", amount, "expected a number$"),
        ("-1", amount, "expected a number that is not negative$"),
        ("nan", amount, "expected a number that is not negative$"),
        ("10", whole(1, 9), "from 1 to 9$"),
        ("xml", one_of("console", "json"), "expected one of console, json$"),
    ],
)
def test_env_bad_value_names_variable_and_reason(
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
def test_env_bad_value_stops_the_start_in_one_line(name: str, value: str) -> None:
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


ENV_EXAMPLE = PROJECT / ".env.example"
SAMPLE = re.compile(r"^#([A-Z_]+)=(.*)$", re.MULTILINE)
DESCRIBED = re.compile(r"^# .*\.\n#([A-Z_]+)=", re.MULTILINE)


def test_env_example_describes_each_variable_that_the_code_reads() -> None:
    named = re.compile(r"(?:read|url)\(\s*\"((?:NOUS|DATABASE)_[A-Z_]+)\"")
    code = {name for file in (PROJECT / "nousweb").rglob("*.py") for name in named.findall(file.read_text())}
    sample = ENV_EXAMPLE.read_text()
    assert sorted(code) == sorted(name for name, _ in SAMPLE.findall(sample)) == sorted(DESCRIBED.findall(sample))


def test_env_example_changes_no_setting() -> None:
    show = (
        "from django.conf import settings;"
        " print({name: repr(getattr(settings, name)) for name in dir(settings) if name.isupper()})"
    )
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("NOUS_", "DATABASE_"))}
    bare |= {"DJANGO_SETTINGS_MODULE": "nousweb.settings", "NOUS_SECRET_KEY": "x" * 50}
    sample = {name: value for name, value in SAMPLE.findall(ENV_EXAMPLE.read_text()) if value}

    def settings(variables: dict[str, str]) -> str:
        shown = subprocess.run(
            [sys.executable, "-c", show], env=variables, cwd=PROJECT, check=True, capture_output=True, text=True
        )
        return re.sub(" at 0x[0-9a-f]+", "", shown.stdout)

    assert settings(bare) == settings(bare | sample)
