"""Known vulnerabilities of the locked dependencies: python requirements/audit.py PIP_AUDIT LOCK [LOCK ...]

Exit code 1 says that a locked version has a known vulnerability. An audit that could not ask says so, for each lock by
how many packages, and ends with 0: a registry that is out of reach does not stop a build, but is no clean bill either.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PATIENCE = 300


def main(program: str, *locks: str) -> int:
    with ThreadPoolExecutor() as threads:
        answers = list(threads.map(lambda lock: audit(program, lock), locks))
    vulnerable = [report(Path(lock).name, answer) for lock, answer in zip(locks, answers, strict=True)]
    return 1 if any(vulnerable) else 0


def audit(program: str, lock: str) -> list[dict[str, Any]] | str:
    """What pip-audit says of each package of a lock file, or why it could not run."""
    command = [program, "--requirement", lock, "--disable-pip", "--require-hashes", "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    except (ValueError, KeyError):
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
    return packages


def report(lock: str, packages: list[dict[str, Any]] | str) -> list[str]:
    """Write what was found in a lock file, and return the vulnerabilities, a line each."""
    if isinstance(packages, str):
        sys.stdout.write(f"THE AUDIT OF {lock} COULD NOT RUN: {packages}\n")
        return []
    asked = [one for one in packages if "skip_reason" not in one]
    found = [
        f"{one['name']} {one['version']}: {each['id']}, fixed in {', '.join(each['fix_versions']) or 'no version yet'}"
        for one in asked
        for each in one["vulns"]
    ]
    for line in found:
        sys.stdout.write(f"{lock}: {line}\n")
    if not asked:
        sys.stdout.write(f"THE AUDIT OF {lock} COULD NOT RUN: the registry told of none of {len(packages)} packages.\n")
    else:
        missing = f", {len(packages) - len(asked)} could not be asked about" if len(asked) < len(packages) else ""
        sys.stdout.write(f"{lock}: {len(asked)} packages audited{missing}, {len(found)} known vulnerabilities.\n")
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
