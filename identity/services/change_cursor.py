"""Cursors of the change feed: a place in each stream that a reader reads, in text that says nothing to anybody."""

import base64
import binascii
import json

from identity.models import Persona
from identity.services.change_feed import Place, Places
from nousweb.lib.errors import Invalid

MAX_CHARACTERS = 200
MAX_POSITION = 2**62


def places_encode(places: Places) -> str:
    """The text of a cursor."""
    payload = json.dumps([[name, place.position, place.key] for name, place in places.items()], separators=(",", ":"))
    return base64.urlsafe_b64encode(payload.encode()).decode().rstrip("=")


def places_decode(cursor: str) -> dict[str, Place]:
    """The places in `cursor`, {} for an empty one. Raises Invalid for what `places_encode` did not make."""
    if not cursor:
        return {}
    try:
        if len(cursor) > MAX_CHARACTERS:
            raise ValueError
        payload = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        return {name: _place(position, key) for name, position, key in payload if Persona(name)}
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise Invalid("This cursor does not come from a page of changes.", field="after") from error


def _place(position: object, key: object) -> Place:
    if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position < MAX_POSITION:
        raise ValueError
    if not isinstance(key, str) or len(key) > 8 or not set(key) <= set("0123456789abcdef"):
        raise ValueError
    return Place(position, key)
