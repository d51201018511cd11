"""Typed access to values of imported JSON; a value of another type is refused with its place."""

import math
from datetime import UTC, datetime, tzinfo
from typing import Any

from nousweb.lib import Invalid

MAX_PLACE_CHARACTERS = 200


def place_shown(place: str) -> str:
    """A place as a refusal names it: on one line, and short, since files name their conversations as they like."""
    return printable(" ".join(place.split())[:MAX_PLACE_CHARACTERS])


def printable(text: str) -> str:
    """`text` without control characters for terminals, such as escape sequences."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


class BadEntry(Invalid):
    """The content of a file cannot be read as this format. The message names the place."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place_shown(place)}: {why}", field="file")


def value_get(holder: Any, name: str, where: str, default: Any = None) -> Any:
    """`name` of an object; `default` where it is missing or null. Raises BadEntry."""
    if not isinstance(holder, dict):
        raise BadEntry(where, "this is not an object.")
    value = holder.get(name)
    value = default if value is None else value
    if value is None:
        raise BadEntry(where, f"{name} is missing.")
    return value


def text_get(holder: Any, name: str, where: str, default: str | None = None) -> str:
    """`name` of an object, as `value_get`, and text. Raises BadEntry."""
    value = value_get(holder, name, where, default)
    if not isinstance(value, str):
        raise BadEntry(where, f"{name} is not text.")
    return value


def list_check(where: str, value: Any) -> bool:
    """True for a list. Raises BadEntry."""
    if not isinstance(value, list):
        raise BadEntry(where, "this is not a list.")
    return True


def texts_kept(source: dict[str, Any], *names: str) -> dict[str, Any]:
    """The named values, if they are texts."""
    return {name: source[name] for name in names if isinstance(source.get(name), str)}


def moment_get(where: str, value: Any, *, naive: tzinfo | None = None) -> datetime | None:
    """A moment given as ISO 8601 or in seconds since 1970; its zone may be left out where `naive` is one."""
    if value is None:
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value, UTC)
        moment = datetime.fromisoformat(value)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        raise BadEntry(where, "its time is neither ISO 8601 nor seconds since 1970.") from error
    if moment.tzinfo is None:
        if naive is None:
            raise BadEntry(where, "its time lacks its zone.")
        moment = moment.replace(tzinfo=naive)
    return moment
