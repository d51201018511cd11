"""The end of this process, for those who wait in a request. The web server's own process imports it, without Django."""

from threading import Event

stopping = Event()
"""Set once, by the server of the process."""
