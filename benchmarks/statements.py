"""How heavy the product is: statements (`ast.stmt` nodes) and lines of its packages without migrations, lines of
templates and words of docs, of one or several commits.

`python -m benchmarks.statements [COMMIT …]` (default: HEAD).
"""

import ast
import subprocess
import sys

PACKAGES = ("nousweb", "memory", "identity", "context")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def _texts(commit: str, ending: str, *folders: str) -> list[str]:
    names = _git("ls-tree", "-r", "--name-only", commit, "--", *folders).splitlines()
    wanted = [name for name in names if name.endswith(ending) and "/migrations/" not in name]
    return [_git("show", f"{commit}:{name}") for name in wanted]


def main(commits: list[str]) -> None:
    """Print one line for each commit."""
    for commit in commits:
        sources = _texts(commit, ".py", *PACKAGES)
        statements = sum(isinstance(node, ast.stmt) for text in sources for node in ast.walk(ast.parse(text)))
        lines, templates = (sum(text.count("\n") for text in texts)
                            for texts in (sources, _texts(commit, ".html", "templates")))  # fmt: skip
        words = sum(len(text.split()) for text in _texts(commit, ".md", "docs"))
        print(
            f"{commit[:12]}: {statements:,} statements in {lines:,} lines of {len(sources)} files;"
            f" {templates:,} lines of templates; {words:,} words of docs"
        )


if __name__ == "__main__":
    main(sys.argv[1:] or ["HEAD"])
