"""Opaque cursors for keyset pagination: the sort key of the last row shown, so that pages stay cheap and stable."""

import base64
import binascii
import json
from datetime import UTC, datetime
from uuid import UUID

from nousweb.lib.errors import Invalid

# Ours have about 110 characters; a longer one is not even parsed.
MAX_CURSOR_CHARACTERS = 200


def cursor_encode(moment: datetime, row_id: UUID | int) -> str:
    payload = json.dumps([moment.isoformat(), str(row_id)], separators=(",", ":"))
    return base64.urlsafe_b64encode(payload.encode()).decode().rstrip("=")


def cursor_decode(cursor: str) -> tuple[datetime, str]:
    """The moment and row id in `cursor`. Raises Invalid for anything that cursor_encode did not make."""
    try:
        if len(cursor) > MAX_CURSOR_CHARACTERS:
            raise ValueError
        payload = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        moment, row_id = payload
        parsed = datetime.fromisoformat(moment)
        if parsed.tzinfo is None or not isinstance(row_id, str):
            raise ValueError
        parsed = parsed.astimezone(UTC)
    except (ValueError, TypeError, OverflowError, binascii.Error) as error:
        raise Invalid("This cursor is not one that a page gave out.", field="cursor") from error
    return parsed, row_id
