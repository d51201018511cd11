"""Dependencies point one way, those of templates too; the contracts of imports stand in pyproject.toml."""

import re
from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent


def test_layering_contracts_are_kept(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert result == 0, capsys.readouterr().out


def test_layering_templates_use_only_their_own_folder_and_components():
    strangers = []
    for template in sorted((ROOT / "templates").rglob("*.html")):
        folder = template.relative_to(ROOT / "templates").parts[0]
        for used in re.findall(r'{% (?:include|extends) "([^"]+)"', template.read_text()):
            place, _, name = used.partition("/")
            if name and place not in (folder, "components"):
                strangers.append(f"{template.relative_to(ROOT)} uses {used}")
    assert not strangers
