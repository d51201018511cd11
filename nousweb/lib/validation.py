"""Validation of callers' values: each function returns the value as it is stored, or raises Invalid naming its field.

Others give the reason why a text cannot be stored, is empty, or cannot be approved: people approve only texts that they
see completely.
"""

import json
import unicodedata
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from nousweb.lib import clock
from nousweb.lib.bounds import MAX_TAGS, WORD
from nousweb.lib.characters import invisible_characters, plain_text, position_of
from nousweb.lib.errors import Invalid
from nousweb.lib.prompt_escaping import chat_mark_indices, mark_at

_NAMED = 3
"""Maximum number of hidden characters that a reason names."""

UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
"""Controls, format characters (zero-width and bidirectional ones among them) and white space of every kind."""

UNSEEN_CHARACTERS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00016fe4\U0001d159"
    + "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
)
"""Fillers, joiners, variation selectors and the empty Braille pattern: letters, marks and symbols without ink."""


def storable_check(field: str, value: str) -> str:
    """A text as it is, which the database can store."""
    if why := unstorable_reason(value):
        raise Invalid(why, field=field)
    return value


def length_check(field: str, value: str, limit: int) -> str:
    if len(value) > limit:
        raise Invalid(f"{field} holds at most {limit:,} characters; this has {len(value):,}.", field=field)
    return value


def text_check(field: str, value: str, limit: int, *, required: bool = False) -> str:
    storable_check(field, value)
    # Text of which nothing can be seen, such as zero-width spaces, says as little as none.
    value = "" if is_blank(value) else value.strip()
    if required and not value:
        raise Invalid(f"{field} must not be empty.", field=field)
    return length_check(field, value, limit)


def name_check(value: str) -> str:
    """A name that people give something: one line of at most 100 characters, all of which can be seen."""
    value = " ".join(value.split())
    if not 1 <= len(value) <= 100 or unstorable_reason(value):
        raise Invalid("A name must have 1 to 100 storable characters.", field="name")
    if hidden := invisible_characters(value, 1):
        raise Invalid(f"A name must not contain {hidden[0].code} {hidden[0].name}, which is invisible.", field="name")
    return value


def visible_text_check(field: str, value: str, limit: int, *, required: bool = False) -> str:
    """Validate a text that is compared with people's decisions: invisible characters are not stored."""
    value = visible_text(text_check(field, value, limit, required=required))
    # Composed characters may be more of them than what they are composed from.
    return text_check(field, value, limit, required=required)


def visible_text(value: str) -> str:
    """`value` as it is seen: without hidden characters, and each character in its one composed form."""
    return unicodedata.normalize("NFC", plain_text(value))


def word_check(field: str, value: str) -> str:
    if not WORD.fullmatch(value):
        raise Invalid(
            f"{field} is a lower-case word of 1 to 50 letters, digits, - or _, not {value[:60]!r}.",
            field=field,
        )
    return value


def choice_check(field: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise Invalid(f"{field} is one of {', '.join(choices)}, not {value[:60]!r}.", field=field)
    return value


def unit_check(field: str, value: float) -> float:
    # Written so that NaN fails too.
    if not 0.0 <= value <= 1.0:
        raise Invalid(f"{field} lies between 0 and 1.", field=field)
    return value


def moment_check(field: str, value: datetime | None) -> datetime | None:
    # The database would store, and no driver read back, a moment whose UTC lies outside the years 1 to 9999.
    try:
        return value.astimezone(UTC) if value else None
    except OverflowError as error:
        raise Invalid(f"{field} lies outside the years 1 to 9999.", field=field) from error


def tags_check(tags: Sequence[str]) -> list[str]:
    if len(tags) > MAX_TAGS:
        raise Invalid(f"At most {MAX_TAGS} tags.", field="tags")
    return sorted({visible_text_check("tags", tag, 50, required=True) for tag in tags})


def texts_check(field: str, values: Sequence[str], *, count: int, limit: int) -> list[str]:
    """At most `count` texts of at most `limit` characters each, in their order, none of them empty."""
    if len(values) > count:
        raise Invalid(f"{field} holds at most {count:,} entries; this has {len(values):,}.", field=field)
    return [text_check(field, value, limit, required=True) for value in values]


def json_check(field: str, value: Any) -> str:
    """A value as compact JSON that the database stores, the members of objects in one order."""
    if why := first_unstorable(value):
        raise Invalid(why, field=field)
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"{field} contains values that are not valid JSON, such as NaN, or is nested too deeply.", field=field
        ) from error


def depth_check(field: str, value: Any, limit: int) -> None:
    """Objects and lists that are nested at most `limit` deep."""
    level, depth = [value], 0
    while level := [inner for one in level for inner in _members(one)]:
        depth += 1
        if depth > limit:
            raise Invalid(f"{field} is nested at most {limit} deep.", field=field)


def _members(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def whole_check(field: str, value: int, lowest: int, highest: int) -> int:
    if not lowest <= value <= highest:
        raise Invalid(f"{field} lies between {lowest:,} and {highest:,}.", field=field)
    return value


def past_check(field: str, value: datetime | None) -> datetime | None:
    """A moment that has come already."""
    if value is not None and value > clock.now():
        raise Invalid(f"{field} lies in the future.", field=field)
    return moment_check(field, value)


def is_blank(text: str) -> bool:
    """Whether nothing of `text` can be seen."""
    return all(
        character in UNSEEN_CHARACTERS or unicodedata.category(character) in UNSEEN_CATEGORIES for character in text
    )


def unstorable_reason(text: str) -> str | None:
    """Why `text` cannot be stored (a NUL or half a surrogate pair), or None when it can."""
    if "\x00" in text:
        return "A NUL character cannot be stored."
    try:
        text.encode()
    except UnicodeEncodeError:
        return "The text contains half of a surrogate pair, which is not a character."
    return None


def first_unstorable(value: Any) -> str | None:
    """The reason for the first string inside a JSON-like `value`, keys included, that cannot be stored."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            if reason := unstorable_reason(current):
                return reason
        elif isinstance(current, dict):
            pending.extend(current.keys())
            pending.extend(current.values())
        elif isinstance(current, list | tuple):
            pending.extend(current)
    return None


def unapprovable_reason(text: str) -> str | None:
    """The reason why `text` may not become part of an identity, or None: the prompt must contain exactly what was
    approved.

    It names each invisible character and each mark of a chat template, with its line and column.
    """
    if hidden := invisible_characters(text):
        named = "; ".join(f"{one.code} {one.name} (line {one.line}, column {one.column})" for one in hidden[:_NAMED])
        more = f" and {len(hidden) - _NAMED:,} more" if len(hidden) > _NAMED else ""
        return f"It contains characters that are invisible or reorder others: {named}{more}."
    if marks := chat_mark_indices(text):
        position = position_of(text, marks[0])
        return (
            f"It contains {mark_at(text, marks[0])!r} near line {position.line}, column {position.column}, which a"
            " language model may misread as a change of speaker or as markup; use other words."
        )
    return None
