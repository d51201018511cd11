"""Maximum sizes of events and of their metadata."""

from datetime import timedelta

MAX_EVENTS_PER_CALL = 1_000
MAX_EVENT_CHARACTERS = 200_000
MAX_METADATA_BYTES = 64 * 1024
"""Maximum size of an event's metadata as compact JSON in UTF-8."""
MAX_METADATA_DEPTH = 10
MAX_LOOP_ID_CHARACTERS = 100
MAX_KEY_CHARACTERS = 200
MAX_EVENT_LEAD = timedelta(days=1)
"""How far ahead of the server's clock an event may be stamped; the earliest year is 1970."""
