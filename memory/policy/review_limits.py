"""Limits of pending reviews."""

from datetime import timedelta

MAX_PENDING_REVIEWS_PER_ENDORSED_FACT = 3
"""Reviews of one fact of people's that wait; a token opens no further one."""

MAX_PENDING_REVIEWS_PER_TOKEN = 2_000

MAX_REVIEWS_PER_TOKEN_AND_WINDOW = 5_000

REVIEW_WINDOW = timedelta(hours=24)

REVIEW_RETRY_SECONDS = 3_600
"""After so long a token may try again where people have to answer first."""

MAX_PENDING_QUARANTINE_REVIEWS = 500
"""Pending reviews of quarantined texts, per persona. Further texts are quarantined without a review."""

MAX_ITEMS_PER_QUARANTINE_REVIEW = 1_000
"""Memories with the same words in one review."""

MAX_RELEARNED_REVIEWS = 3
RELEARNED_WINDOW = timedelta(days=30)
"""Maximum number of reviews of one invalidated fact in this time, whatever the sources."""
