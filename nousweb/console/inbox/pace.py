"""Estimate the time for the pending items from the person's recent decisions."""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

USUAL_SECONDS = 20.0
"""For each decision, until a person has taken a few."""
LONGEST_GAP = 300.0
"""Maximum seconds between two decisions; a longer gap is a break."""
SHORTEST_GAP = 0.5
"""Seconds; decisions that are closer together were one action about many."""
MIN_GAPS = 3
LATELY = timedelta(days=1)
READ = 30
"""Maximum number of a person's latest decisions that are read."""


def seconds_each(moments: Sequence[datetime]) -> float:
    """The median time between decisions that were taken at `moments`, in whichever order."""
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(sorted(moments)[-READ:])]
    gaps = [gap for gap in gaps if SHORTEST_GAP <= gap <= LONGEST_GAP]
    return median(gaps) if len(gaps) >= MIN_GAPS else USUAL_SECONDS


def minutes_left(waiting: int, moments: Sequence[datetime]) -> int:
    """The minutes, rounded up, that `waiting` decisions take at this person's pace."""
    return math.ceil(waiting * seconds_each(moments) / 60)
