"""Settings of the judge and the counter of tokens: a bad one stops the start and names its variable."""

import os
import subprocess
import sys

import pytest

from nousweb.lib.env import http_url


def _started(**variables: str) -> subprocess.CompletedProcess[str]:
    script = "from nousweb import settings as s; print(s.JUDGE, s.JUDGE_BASE_URL)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOUS_JUDGE")}
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


@pytest.mark.parametrize("raw", ["api.example.org", "ftp://example.org", "https://", "javascript:alert(1)"])
def test_judge_settings_address_of_another_kind_is_refused(raw):
    with pytest.raises(ValueError, match="http"):
        http_url(raw)


def test_judge_settings_address_loses_its_slash():
    assert http_url(" https://example.org/judge/ ") == "https://example.org/judge"
