"""The audit of the locked dependencies: a vulnerability fails it, and one that could not run says so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
CLEAN = {"name": "django", "version": "6.0", "vulns": []}
VULNERABLE = {"name": "sqlparse", "version": "0.1", "vulns": [{"id": "PYSEC-0000-1", "fix_versions": ["0.2"]}]}
SKIPPED = {"name": "psycopg", "skip_reason": "Dependency not found on PyPI and could not be audited"}


def audit(folder, answer, *, exit_code=0, error=""):
    """Run the audit with a program that answers as pip-audit does."""
    program = folder / "pip-audit"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.stdout.write({answer!r})\nsys.stderr.write({error!r})\n"
        f"sys.exit({exit_code})\n"
    )
    program.chmod(0o755)
    command = [sys.executable, PROJECT / "requirements" / "audit.py", program, PROJECT / "requirements" / "run.lock"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("packages", "code", "line"),
    [
        ([CLEAN], 0, "run.lock: 1 packages audited, 0 known vulnerabilities."),
        ([CLEAN, SKIPPED], 0, "run.lock: 1 packages audited, 1 could not be asked about, 0 known vulnerabilities."),
        ([CLEAN, VULNERABLE], 1, "run.lock: sqlparse 0.1: PYSEC-0000-1, fixed in 0.2"),
        ([SKIPPED], 0, "THE AUDIT OF run.lock COULD NOT RUN: the registry told of none of 1 packages."),
    ],
)
def test_audit_reports_what_was_asked(tmp_path, packages, code, line):
    done = audit(tmp_path, json.dumps({"dependencies": packages}), exit_code=code)
    assert (done.returncode, line in done.stdout.splitlines()) == (code, True), done


def test_audit_says_that_it_could_not_run(tmp_path):
    done = audit(tmp_path, "", exit_code=1, error="Traceback\nConnectionError: no route to the registry\n")
    assert done.returncode == 0
    assert done.stdout == "THE AUDIT OF run.lock COULD NOT RUN: ConnectionError: no route to the registry\n"
    missing = [sys.executable, PROJECT / "requirements" / "audit.py", tmp_path / "none", "run.lock"]
    assert "COULD NOT RUN" in subprocess.run(missing, capture_output=True, text=True, check=True).stdout
