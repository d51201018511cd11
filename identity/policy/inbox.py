"""Permissions on the items of the inbox, declared as data."""

VIEW_RIGHTS = {"changeproposal": "identity.view_changeproposal", "memoryreview": "memory.view_memoryreview"}
"""By type of an item the right to know of it."""

DECIDE_RIGHTS = {"changeproposal": "identity.review_changeproposal", "memoryreview": "memory.review_memory"}
"""By type of an item the right to decide it, to hand it on, to put it off and to talk about it."""

ITEM_PAGES = {"changeproposal": "proposal", "memoryreview": "memory_review_detail"}
"""By type of an item the name of its page's address."""

MAX_COMMENT_CHARACTERS = 4_000
MAX_FILTERS = 50
"""Saved by one person."""
MAX_SNOOZE_DAYS = 365
HIGH_RISK_TOLD_FOR_HOURS = 24
"""An item of high risk that is older is notified of to nobody new: it stands first in the inbox."""

READ_KEPT_DAYS = 90
"""For so long a notification stays that was read."""
