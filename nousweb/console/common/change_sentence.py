"""What a fact was before a change, as a sentence."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from memory.models import FactChange

HIDDEN = frozenset({"active", "retired_at", "superseded_by", "quarantined", "last_confirmed_at", "source_changed_at"})
"""Fields that the action itself tells of."""


def _moment(value: str) -> str:
    return f"{datetime.fromisoformat(value):%Y-%m-%d %H:%M} UTC"


def _span(word: str, without: str) -> Callable[[Any], str]:
    return lambda value: f"{word} {_moment(value)}" if value else without


def _named(name: str) -> Callable[[Any], str]:
    def words(value: Any) -> str:
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str("" if value is None else value)
        return f"with {name} “{shown}”" if shown else f"without {name}"

    return words


COUNTED = {0: "never confirmed", 1: "confirmed once"}
WORDS: dict[str, Callable[[Any], str]] = {
    "endorsed": lambda value: "verified by people" if value else "not verified by people",
    "invalidated_at": lambda value: f"marked as wrong on {_moment(value)}" if value else "not marked as wrong",
    "valid_from": _span("valid from", "valid from an unknown time"),
    "valid_until": _span("valid until", "valid without an end"),
    "source_ref": lambda value: "read earlier or elsewhere" if value else "without a source to read again",
    "expires_at": _span("expiring", "not expiring"),
    "confirmation_count": lambda value: COUNTED.get(value, f"confirmed {value} times"),
}


def change_sentence(change: FactChange) -> str:
    """What the fact was before the change; "" if the action itself says it."""
    fields = {name: value for name, value in change.before.items() if name not in HIDDEN}
    # A retirement shows the end of validity only where there was one.
    if change.action in FactChange.VALIDITY_TRANSITIONS:
        fields = {name: value for name, value in fields.items() if value is not None}
    words = [WORDS.get(name, _named(name.replace("_", " ")))(value) for name, value in fields.items()]
    return f"Before, it was {_listed(words)}." if words else ""


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
