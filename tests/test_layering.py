"""Dependencies point one way; the contracts stand in pyproject.toml."""

from pathlib import Path

from importlinter import api
from importlinter.application.use_cases import FAILURE, SUCCESS
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent


def test_the_contracts_are_kept(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert result == 0, capsys.readouterr().out


def test_there_are_contracts_to_keep():
    contracts = api.read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
    assert {contract["type"] for contract in contracts} >= {"layers", "forbidden"}
    assert SUCCESS != FAILURE
