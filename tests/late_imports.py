"""Modules that are imported when a test first asks one of them for something.

Each process of a run collects every file, and only one of them runs the file that needs such a module.
"""

from importlib import import_module
from typing import Any


class Late:
    """The module of this name, which takes long to import."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            # What pytest asks every object of a file for while it looks for tests.
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)
