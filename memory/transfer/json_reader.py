"""Parse untrusted JSON: what is invalid or cannot be stored is refused with the reason."""

import json
import math
from typing import Any

from nousweb.lib import first_unstorable

MAX_DEPTH = 100
"""Lists and objects within each other; what this product writes is a tenth as deep."""


class BadJson(ValueError):
    """Why the bytes cannot be used, as a sentence without its place; `line` counts from 1 where it is known."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


def json_read(raw: bytes) -> Any:
    """The value in `raw`. Raises BadJson, also for numbers that JSON does not know and text that cannot be stored."""
    try:
        value = DECODER.decode(raw.decode("utf-8"))
        value_check(value)
    except UnicodeDecodeError as error:
        raise BadJson("this is not JSON in UTF-8.", raw.count(b"\n", 0, error.start) + 1) from error
    except (ValueError, RecursionError) as error:
        raise BadJson(refusal_reason(error), getattr(error, "lineno", 0)) from error
    return value


def refusal_reason(error: Exception) -> str:
    """Why DECODER or `value_check` refuses a text, as a sentence."""
    match error:
        case BadJson():
            return error.why
        case json.JSONDecodeError():
            return f"this is not JSON: {error.msg}."
        case RecursionError():
            return f"it is nested more than {MAX_DEPTH} deep."
        case _:
            return "it holds a number of too many digits."


def value_check(value: Any) -> None:
    """Raise BadJson for a value that is nested too deep, or holds text that cannot be stored."""
    _depth_check(value)
    if why := first_unstorable(value):
        raise BadJson(why)


def _refuse_constant(name: str) -> Any:
    raise BadJson(f"it holds {name}, which is no number of JSON.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise BadJson(f"it holds {text[:20]}, a number that is too great.")
    return number


def _depth_check(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for held in level
            if isinstance(held, dict | list)
            for inner in (held.values() if isinstance(held, dict) else held)
        ]
        if not level:
            return
    raise BadJson(f"it is nested more than {MAX_DEPTH} deep.")


DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
"""Raises BadJson for numbers that JSON does not know."""
