"""When Python looks for garbage."""

import gc

GARBAGE_OBJECTS = 20_000
"""After this many more objects than were freed, it is looked for: some megabytes."""


def garbage_rare() -> None:
    """Look for garbage seldom from here on, and not among what was imported, which stays.

    Little of what a request or a task makes refers to itself: counting references frees it, and looking for the rest
    more often takes a fiftieth of the time of requests, and a tenth of that of imports.
    """
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    gc.enable()
