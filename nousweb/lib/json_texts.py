"""The texts of a JSON value."""

from collections.abc import Iterator, Mapping
from typing import Any


def json_texts(value: Any) -> Iterator[str]:
    """All texts of a JSON value in their order: the names of objects, also of empty ones, and every string."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name)
            yield from json_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from json_texts(inner)
