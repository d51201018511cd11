"""Rights, limits and times of expectations, declared as data."""

from datetime import timedelta

from context.engine.analysis.frames import SECTION_BUDGETS
from identity.policy.sections import Section

VIEW = "context.view_expectation"
ADD = "context.add_expectation"
CHANGE = "context.change_expectation"
RUN = "context.run_expectation"

MAX_ACTIVE = 500
"""Maximum number of active expectations of one agent: a check of all must end before the next change is old."""
MAX_REQUEST_CHARACTERS = 100_000
MAX_TEXT_CHARACTERS = 2_000
MIN_TEXT_CHARACTERS = 2
"""A shorter text is in every prompt."""
MAX_REASON_CHARACTERS = 1_000
SESSION = "expectation"
"""The session of a question that names none: it has nothing in mind."""

IDENTITY_PARTS = {f"identity.{name}": label for name, label in Section.choices}
SECTIONS = (*SECTION_BUDGETS, *IDENTITY_PARTS)
"""The values of a requirement's section: a section of the prompt, or one of the identity."""

MAX_UNINDEXED = 1_000
"""Memories without a vector that a check looks through; while there are more, no absence is known."""
LOOKED_AHEAD = 4
"""Number of questions that are embedded while the one before them is checked."""

CAUSE_SECONDS = 60.0
"""After so long in one check no further cause is looked for; the result says so, and a later check goes on."""

RECHECK_AFTER = timedelta(hours=6)
"""Without any change, an expectation is checked again after this time: facts also begin and end over time."""
RESULT_HOLDS = 4 * RECHECK_AFTER
"""A pass that was not checked again for so long says nothing of today: nobody checks any more."""
RECHECK_ERRORS_AFTER = timedelta(minutes=5)
"""A check that could not run is tried again after this time."""
REST_FACTOR = 4
"""A background check of an agent rests so many times as long as it took before the next."""
VECTORS_WAIT = timedelta(seconds=60)
"""So long a background check waits for memories that have no vector yet."""
VECTORS_RETRY = timedelta(seconds=3)
