"""What the drills run with."""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the drills unless they are asked for."""
    if os.environ.get("ATTACK_SCALE"):
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="Drills take minutes: `make drills` runs them."))
