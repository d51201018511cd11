"""Typed reading of environment variables, where a bad value names its variable."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off", ""})


class BadSetting(ValueError):
    """An environment variable holds a value that cannot be used; the message starts with its name."""


def read(name: str, parse: Callable[[str], T], default: T) -> T:
    """Return variable `name` as parsed by `parse`, or `default` when it is unset or empty.

    Raises BadSetting, naming the variable and the reason, when `parse` raises ValueError.
    """
    raw = os.environ.get(name, "")
    if raw == "":
        return default
    try:
        return parse(raw)
    except ValueError as error:
        raise BadSetting(f"{name}={raw!r}: {error}") from error


def flag(raw: str) -> bool:
    """Parse a yes/no word."""
    word = raw.strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ValueError("expected one of true, false, yes, no, on, off, 1, 0")


def whole(low: int, high: int) -> Callable[[str], int]:
    """Parser of a whole number between `low` and `high`, both included."""

    def parse(raw: str) -> int:
        try:
            number = int(raw)
        except ValueError:
            raise ValueError("expected a whole number") from None
        if not low <= number <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return number

    return parse


def amount(raw: str) -> float:
    """Parse an amount, such as a price: a number that is not negative."""
    try:
        number = float(raw)
    except ValueError:
        raise ValueError("expected a number") from None
    if not 0 <= number < 1e9:
        raise ValueError("expected a number that is not negative")
    return number


def words(raw: str) -> list[str]:
    """Parse a comma-separated list, without empty entries."""
    return [word.strip() for word in raw.split(",") if word.strip()]


def one_of(*allowed: str) -> Callable[[str], str]:
    """Parser of one word out of a fixed set."""

    def parse(raw: str) -> str:
        if raw not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}")
        return raw

    return parse


def http_url(raw: str) -> str:
    """Parse the address of a web service, without a slash at its end."""
    address = raw.strip().rstrip("/")
    if not address.startswith(("http://", "https://")) or not urlsplit(address).hostname:
        raise ValueError("expected an address that starts with http:// or https://")
    return address


def trace_url(raw: str) -> str:
    """Parse the address at which a trace is shown, with {trace_id} in the place of its id."""
    address = http_url(raw)
    if address.replace("{trace_id}", "").count("{") or "{trace_id}" not in address:
        raise ValueError("expected {trace_id} in the address, and no other braces")
    return address


def mail_url(raw: str) -> str:
    """Parse the address of a mail server: smtp://, smtp+tls:// or smtp+ssl://, with name and password if it asks."""
    if not raw.startswith(("smtp://", "smtp+tls://", "smtp+ssl://", "consolemail://")):
        raise ValueError("expected an address that starts with smtp://, smtp+tls:// or smtp+ssl://")
    return raw


def text_pairs(raw: str) -> dict[str, str]:
    """Parse a JSON object whose values are texts."""
    with suppress(ValueError):
        found = json.loads(raw)
        if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
            return found
    raise ValueError('expected a JSON object such as {"a group": "Viewer"}')


def broker(raw: str) -> str:
    """Parse where tasks are queued: `orm`, the database itself, or the address of a Redis."""
    if raw != "orm" and not (raw.startswith(("redis://", "rediss://")) and urlsplit(raw).hostname):
        raise ValueError("expected orm, or an address that starts with redis:// or rediss://")
    return raw


def shown_text(raw: str) -> str:
    """Parse a text for prompts; all its characters must be visible."""
    # Processes that read no such text need not load what judges it.
    from nousweb.lib.validation import unapprovable_reason

    if why := unapprovable_reason(raw):
        raise ValueError(why)
    return raw
