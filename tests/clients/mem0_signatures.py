"""Write mem0_signatures.json: what the methods of mem0's classes take, read from its source without importing it.

pip download --no-deps mem0ai && python -m tests.clients.mem0_signatures mem0ai-*.whl
"""

import ast
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

CLASSES = ("Memory", "AsyncMemory")


def signature(method: ast.FunctionDef | ast.AsyncFunctionDef) -> list[list[Any]]:
    """Name and kind of each parameter, and whether it has a default."""
    given = method.args
    places = [*given.posonlyargs, *given.args]
    without = len(places) - len(given.defaults)
    found: list[list[Any]] = [[one.arg, "POSITIONAL_OR_KEYWORD", place >= without] for place, one in enumerate(places)]
    found += [
        [one.arg, "KEYWORD_ONLY", default is not None]
        for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    return [*found, *([[given.kwarg.arg, "VAR_KEYWORD", False]] if given.kwarg else [])]


def main(wheel: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tree = ast.parse(archive.read("mem0/memory/main.py"))
    classes = {
        kind.name: {
            method.name: signature(method)
            for method in kind.body
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and not method.name.startswith("_")
        }
        for kind in tree.body
        if isinstance(kind, ast.ClassDef) and kind.name in CLASSES
    }
    written = json.dumps({"package": Path(wheel).name, "classes": classes}, indent=1, sort_keys=True)
    (Path(__file__).parent / "mem0_signatures.json").write_text(written + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
