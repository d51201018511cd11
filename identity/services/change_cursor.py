"""Cursors of the change feed: the position in each stream of a reader, as an opaque text."""

import base64
import binascii
import json

from identity.models import Persona
from identity.services.change_feed import StreamPosition, StreamPositions
from nousweb.lib.errors import Invalid

MAX_CHARACTERS = 200
MAX_POSITION = 2**62


def cursor_encode(positions: StreamPositions) -> str:
    """The text of a cursor."""
    payload = json.dumps(
        [[name, position.number, position.key] for name, position in positions.items()], separators=(",", ":")
    )
    return base64.urlsafe_b64encode(payload.encode()).decode().rstrip("=")


def cursor_decode(cursor: str) -> dict[str, StreamPosition]:
    """The positions in `cursor`, {} for an empty one. Raises Invalid for a text that `cursor_encode` did not make."""
    if not cursor:
        return {}
    try:
        if len(cursor) > MAX_CHARACTERS:
            raise ValueError
        payload = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        return {name: _position(position, key) for name, position, key in payload if Persona(name)}
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise Invalid("This cursor does not come from a page of changes.", field="after") from error


def _position(position: object, key: object) -> StreamPosition:
    if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position < MAX_POSITION:
        raise ValueError
    if not isinstance(key, str) or len(key) > 8 or not set(key) <= set("0123456789abcdef"):
        raise ValueError
    return StreamPosition(position, key)
