"""Settings of the judge and the counter of tokens: a bad one stops the start and names its variable."""

import os
import subprocess
import sys

import pytest

from nousweb.lib.env import http_url

SETTINGS = "from nousweb import settings as s; print(s.JUDGE, s.JUDGE_BASE_URL)"


def _started(script: str = SETTINGS, **variables: str) -> subprocess.CompletedProcess[str]:
    ours = ("NOUS_JUDGE", "NOUS_OPENAI", "NOUS_ANTHROPIC")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment | variables, capture_output=True, text=True, check=False
    )


def test_judge_settings_need_only_a_key():
    assert _started().stdout.split()[0] == "none"
    assert _started(NOUS_ANTHROPIC_API_KEY="k").stdout.split() == ["anthropic", "https://api.anthropic.com"]
    assert _started(NOUS_ANTHROPIC_API_KEY="k", NOUS_JUDGE="none").stdout.split()[0] == "none"


def test_judge_settings_without_a_key_stop_the_start():
    started = _started(NOUS_JUDGE="anthropic")
    assert started.returncode != 0
    assert "NOUS_ANTHROPIC_API_KEY: needed" in started.stderr


def test_judge_settings_exact_counting_needs_a_key():
    started = _started(NOUS_COUNTER="anthropic")
    assert started.returncode != 0
    assert "NOUS_ANTHROPIC_API_KEY: needed when NOUS_COUNTER" in started.stderr
    assert _started(NOUS_COUNTER="anthropic", NOUS_ANTHROPIC_API_KEY="k").returncode == 0


def test_judge_settings_of_openai():
    local = {"NOUS_JUDGE": "openai", "NOUS_JUDGE_BASE_URL": "http://127.0.0.1:11434/v1/", "NOUS_JUDGE_MODEL": "small"}
    assert _started(**local).stdout.split() == ["openai", "http://127.0.0.1:11434/v1"]
    key = {"NOUS_OPENAI_API_KEY": "k", "NOUS_JUDGE_MODEL": "m"}
    assert _started(**key).stdout.split() == ["openai", "https://api.openai.com/v1"]
    # The key lets the playground answer, also where people resolve all reviews.
    assert _started(**key, NOUS_JUDGE="none").stdout.split() == ["none", "https://api.openai.com/v1"]
    both = _started(**key, NOUS_ANTHROPIC_API_KEY="k")
    assert both.stdout.split() == ["anthropic", "https://api.anthropic.com"]


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"NOUS_JUDGE": "openai", "NOUS_JUDGE_MODEL": "m"}, "NOUS_OPENAI_API_KEY: needed for OpenAI"),
        ({"NOUS_JUDGE": "openai", "NOUS_OPENAI_API_KEY": "k"}, "NOUS_JUDGE_MODEL: needed with openai"),
        ({"NOUS_OPENAI_API_KEY": "k"}, "NOUS_JUDGE_MODEL: needed with openai"),
        ({"NOUS_JUDGE": "gemini"}, "NOUS_JUDGE='gemini': expected one of"),
    ],
)
def test_judge_settings_of_openai_that_lack_something_stop_the_start(variables, said):
    started = _started(**variables)
    assert started.returncode != 0
    assert said in started.stderr


def test_judge_settings_without_the_package_of_openai_say_what_to_install():
    started = _started(
        "import sys; sys.modules['openai'] = None; " + SETTINGS,
        NOUS_JUDGE="openai", NOUS_JUDGE_BASE_URL="http://127.0.0.1:1/v1", NOUS_JUDGE_MODEL="m",
    )  # fmt: skip
    assert started.returncode != 0
    assert "NOUS_JUDGE: openai needs its package: install requirements/openai.lock" in started.stderr
    assert _started("import sys; sys.modules['openai'] = None; " + SETTINGS).returncode == 0


@pytest.mark.parametrize("raw", ["api.example.org", "ftp://example.org", "https://", "javascript:alert(1)"])
def test_judge_settings_address_of_another_kind_is_refused(raw):
    with pytest.raises(ValueError, match="http"):
        http_url(raw)


def test_judge_settings_address_loses_its_slash():
    assert http_url(" https://example.org/judge/ ") == "https://example.org/judge"
