"""The Python client as a reader without a clone gets it, and what its extras bring for the snippets."""

import ast
import functools
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import httpx2
import pytest

from nousweb.console.identity.views.tokens import connect_snippets
from tests.docs.snippets import PROJECT, snippets

CLIENT = tomllib.loads((PROJECT / "clients/python/pyproject.toml").read_text())["project"]


def test_client_is_installed_from_the_address_of_a_server(demo, tmp_path):
    (command,) = {each.install for each in connect_snippets(demo.address) if each.key == "python"}
    requirement = re.fullmatch(r'pip install "(.*)"', command)[1]
    # What it depends on, and hatchling, are where the tests run.
    uv = [sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*uv, "--target", tmp_path, requirement], check=True, capture_output=True, timeout=120)
    show = "import nous_client; print(nous_client.__file__, callable(nous_client.Nous))"
    said = subprocess.run(
        [sys.executable, "-c", show], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=120
    ).stdout
    assert said.split() == [str(tmp_path / "nous_client/__init__.py"), "True"]
    served = httpx2.get(f"{demo.address}/static/nous-client.zip", timeout=60).content
    (tmp_path / "client.zip").write_bytes(served)
    with zipfile.ZipFile(tmp_path / "client.zip") as archive:
        kept = {str(path.relative_to(PROJECT / "clients/python")) for path in modules()}
        assert {name for name in archive.namelist() if name.endswith(".py")} == kept


def modules() -> list[Path]:
    return sorted((PROJECT / "clients/python/src").rglob("*.py"))


IMPORTING = [
    *((each.key, each.install, each.text) for each in connect_snippets("http://127.0.0.1:8000") if each.install),
    *(
        (str(snippet), "[anthropic,langgraph,openai]", snippet.text)
        for document in ("README.md", "docs/quickstart.md", "clients/python/README.md")
        for snippet in snippets(document)
        if snippet.language == "python"
    ),
]


@pytest.mark.parametrize(("name", "install", "text"), IMPORTING, ids=[name for name, _, _ in IMPORTING])
def test_extras_bring_what_a_snippet_imports(name, install, text):
    """As the documents name them; who installs only these must be able to paste the snippet."""
    extras = re.search(r"\[(.*?)\]", install)
    wanted = [
        one for extra in (extras[1].split(",") if extras else ()) for one in CLIENT["optional-dependencies"][extra]
    ]
    brought = closure({re.match(r"[\w-]+", one)[0] for one in (*CLIENT["dependencies"], *wanted)})
    for node in ast.walk(ast.parse(text)):
        names = [node.module] if isinstance(node, ast.ImportFrom) else []
        names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
        for module in names:
            if module.partition(".")[0] not in {*sys.stdlib_module_names, "nous_client"}:
                assert owners(module) & brought, f"{name}: {module} comes with none of {sorted(wanted)}"


def closure(names: set[str]) -> set[str]:
    """These distributions and all that they require."""
    found: set[str] = set()
    while names:
        name = names.pop()
        if name in found:
            continue
        found.add(name)
        required = importlib.metadata.requires(name) or []
        names |= {re.match(r"[\w.-]+", one)[0].lower() for one in required if ";" not in one}
    return found


packages = functools.cache(importlib.metadata.packages_distributions)
"""Reading what each installed distribution brings takes a third of a second."""


def owners(module: str) -> set[str]:
    """The distributions that hold the file of a module."""
    origin = Path(importlib.util.find_spec(module).origin)
    top = module.partition(".")[0]
    return {
        name.lower()
        for name in packages()[top]
        if any(Path(file.locate()) == origin for file in importlib.metadata.files(name) or ())
    }
