"""A shell and a Python that run snippets one after another and keep their variables, as a reader's terminal does."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path

from tests.product import PATIENCE, tied

DONE = "<<< the snippet has ended >>>"
SHELL = f"""
set -eo pipefail
while read -r file; do
    source "$file" </dev/null
    printf "\\n%s\\n" "{DONE}"
done
"""
PYTHON = f"""
import sys
known = {{"__name__": "__main__"}}
for file in sys.stdin:
    exec(compile(open(file.strip()).read(), file.strip(), "exec"), known)
    print("\\n{DONE}", flush=True)
"""


class SnippetFailed(AssertionError):
    """A snippet ended its interpreter."""


class Interpreter:
    """One process that reads names of files and runs each."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.errors = folder / f"errors-of-{Path(command[0]).name}.txt"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                tied(*command),
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def run(self, text: str, name: str) -> str:
        """What the snippet printed. Raises SnippetFailed with what it printed as an error."""
        file = self.folder / f"snippet-{name}"
        file.write_text(text)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        before = self.errors.stat().st_size
        self.process.stdin.write(f"{file}\n")
        self.process.stdin.flush()
        limit = threading.Timer(PATIENCE, self.process.kill)
        limit.start()
        said = []
        for line in self.process.stdout:
            if line.strip() == DONE:
                limit.cancel()
                return "".join(said)
            said.append(line)
        limit.cancel()
        raise SnippetFailed(f"{''.join(said)}\n{self.errors.read_text()[before:]}")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def shell(folder: Path, environment: dict[str, str]) -> Interpreter:
    """A shell that stops at the first command that fails."""
    return Interpreter([shutil.which("bash") or "bash", "-c", SHELL], folder, environment)


def python(folder: Path, environment: dict[str, str]) -> Interpreter:
    return Interpreter([sys.executable, "-c", PYTHON], folder, environment)
