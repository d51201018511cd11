"""How many changes of identity agents and tokens may propose or apply themselves, and how soon again."""

from datetime import timedelta

# Seed 008: "Max 1 identity update per day", counted over a sliding day so that midnight gives no second one.
AGENT_UPDATES_PER_WINDOW = 1
AGENT_UPDATE_WINDOW = timedelta(days=1)

MAX_PENDING_PROPOSALS_PER_TOKEN = 20
MAX_PROPOSALS_PER_TOKEN_AND_DAY = 50
PROPOSAL_WINDOW = timedelta(days=1)
REJECTION_STANDS = timedelta(days=30)
"""So long what people turned down or took back is not proposed again by an agent in the same words."""
