"""Whether this process is about to end, for whoever waits in it for something that may not come."""

from threading import Event

stopping = Event()
"""Set once, by whoever runs the process."""
