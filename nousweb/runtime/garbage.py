"""When Python looks for garbage, and how the C library keeps memory."""

import contextlib
import ctypes
import gc

GARBAGE_OBJECTS = 20_000
"""After this many more objects than were freed, it is looked for: some megabytes."""
M_ARENA_MAX = -8
"""glibc's number for how many heaps there are at most."""


def garbage_rare() -> None:
    """Look for garbage seldom from here on, and not among what was imported, which stays.

    Little of what a request or a task makes refers to itself: counting references frees it, and looking for the rest
    more often takes a fiftieth of the time of requests, and a tenth of that of imports.
    """
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    gc.enable()


def heap_single() -> None:
    """Let all threads of this process use one heap, where glibc is the C library.

    With a heap each, what a thread frees stays its own: 15 MB of a web process.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
