"""Find the one JSON object in the text of a model, which may stand in a code fence or after words."""

import json
from typing import Any

from nousweb.lib.http_exchange import json_is_deep

MAX_CHARACTERS = 200_000
MAX_STARTS = 50
"""Braces at which an object is looked for."""
REASONING, REASONING_ENDS = "<think>", "</think>"


def without_reasoning(text: str) -> str:
    """`text` without the reasoning with which some models begin it."""
    if text.lstrip().startswith(REASONING) and REASONING_ENDS in text:
        return text.partition(REASONING_ENDS)[2]
    return text


def json_in_text(text: str) -> dict[str, Any] | None:
    """The only JSON object in `text`; None if there is none, or more than one: a second may be quoted from a memory."""
    if len(text) > MAX_CHARACTERS or json_is_deep(text.encode("utf-8", "replace")):
        return None
    decoder = json.JSONDecoder(parse_constant=_refused)
    found: dict[str, Any] | None = None
    at = text.find("{")
    for _ in range(MAX_STARTS):
        if at < 0:
            return found
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if found is not None:
                return None
            found = value
        at = text.find("{", end)
    return None


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
