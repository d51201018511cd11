"""Opaque cursors for keyset pagination: the sort key of the last row shown, so that pages stay cheap and stable."""

import base64
import binascii
import json
from datetime import UTC, datetime
from uuid import UUID

from nousweb.lib.constrained_types import MAX_CURSOR_CHARACTERS
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
