"""Keyset pagination: pages that stay cheap and stable however many rows there are and are added.

A cursor is opaque: the sort key of the last row shown.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from nousweb.lib.bounds import MAX_CURSOR_CHARACTERS
from nousweb.lib.errors import Invalid
from nousweb.lib.validation import unstorable_reason


def cursor_encode(moment: datetime, key: UUID | int | str) -> str:
    payload = json.dumps([moment.isoformat(), str(key)], separators=(",", ":"))
    return base64.urlsafe_b64encode(payload.encode()).decode().rstrip("=")


def cursor_decode(cursor: str) -> tuple[datetime, str]:
    """The moment and the row's key in `cursor`. Raises Invalid for anything that cursor_encode did not make."""
    try:
        if len(cursor) > MAX_CURSOR_CHARACTERS:
            raise ValueError
        payload = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        moment, key = payload
        parsed = datetime.fromisoformat(moment)
        if parsed.tzinfo is None or not isinstance(key, str) or unstorable_reason(key):
            raise ValueError
        parsed = parsed.astimezone(UTC)
    except (ValueError, TypeError, OverflowError, binascii.Error) as error:
        raise Invalid("This cursor is not one that a page gave out.", field="cursor") from error
    return parsed, key


Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class KeysetPage(Generic[Row]):
    """The rows of one page, and the cursors of the pages beside it; "" where there is none."""

    rows: list[Row]
    previous: str
    next: str


def keyset_page(
    rows: QuerySet[Row],
    *,
    moment: str,
    size: int,
    after: str = "",
    before: str = "",
    latest_first: bool = True,
    key: str = "id",
) -> KeysetPage[Row]:
    """The `size` rows after a cursor, or else before one, latest (or earliest) first by `moment` and then `key`.

    `key` is a column or an annotation. A cursor can be read, so it is no number that agents and personas share.
    Raises Invalid for a foreign cursor.
    """
    going_back = bool(before) and not after
    # Going back means reading the order from its other side.
    descending = latest_first != going_back
    if cursor := before if going_back else after:
        rows = rows.filter(_beyond(rows, moment, key, cursor, "lt" if descending else "gt"))
    sign = "-" if descending else ""
    found = list(rows.order_by(f"{sign}{moment}", f"{sign}{key}")[: size + 1])
    more = len(found) > size
    found = found[:size]
    if going_back:
        found.reverse()
    if not found:
        return KeysetPage([], "", "")
    first, last = (cursor_encode(getattr(row, moment), getattr(row, key)) for row in (found[0], found[-1]))
    if going_back:
        return KeysetPage(found, first if more else "", last)
    return KeysetPage(found, first if after else "", last if more else "")


def _beyond(rows: QuerySet[Row], moment: str, key: str, cursor: str, side: str) -> Q:
    at, written = cursor_decode(cursor)
    try:
        annotated = rows.query.annotations.get(key)
        column: Any = annotated.output_field if annotated is not None else rows.model._meta.get_field(key)
        value = column.to_python(written)
    except Exception as error:
        raise Invalid("This cursor is not one that a page gave out.", field="cursor") from error
    # The first condition alone is one that an index can start from.
    return Q(**{f"{moment}__{side}e": at}) & (Q(**{f"{moment}__{side}": at}) | Q(**{f"{key}__{side}": value}))
