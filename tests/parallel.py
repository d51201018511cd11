"""pytest plugin: how a run in several processes (`-n auto --dist loadfile`) shares its work out."""

import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

FIRST = ("docs", "e2e", "platform", "interfaces", "security", "api", "memory", "context")
"""Folders in the order in which they begin. Of real programs and browsers, one that began last would have a core for
itself."""


TOGETHER = ("tests/docs/",)
"""Folders whose files one process runs one after the other: they share a demo, and to start another takes 20 s."""


def unit_of(name: str) -> str:
    """The unit that one process runs as a whole: the file `name`, or a folder of TOGETHER."""
    return next((folder for folder in TOGETHER if name.startswith(folder)), name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, but for folders of TOGETHER."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class UnitScheduling(LoadFileScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(super()._split_scope(nodeid))

    return UnitScheduling(config, log)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Two processes more than cores: tests of time limits and of the real programs wait more than they work.

    Each process more imports everything once more and starts a PostgreSQL of its own.
    """
    return (yield) + 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """By folder, as FIRST says, and in each the units with the most tests first; a unit keeps its order."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return

    def rank(item: pytest.Item) -> tuple[int, int, str]:
        file, folder = item.nodeid.partition("::")[0], item.path.parent.name
        return FIRST.index(folder) if folder in FIRST else len(FIRST), -tests[unit_of(file)], file

    tests = Counter(unit_of(item.nodeid.partition("::")[0]) for item in items)
    items.sort(key=rank)
