"""Event that is set on shutdown, so that long waits can stop early."""

from threading import Event

stopping = Event()
"""Set once, by the server of the process."""
