"""Limits on the number and frequency of identity changes that agents and tokens may propose or apply themselves."""

from datetime import timedelta

# Seed 008: "Max 1 identity update per day", counted over a sliding day so that midnight gives no second one.
AGENT_UPDATES_PER_WINDOW = 1
AGENT_UPDATE_WINDOW = timedelta(days=1)

MAX_PENDING_PROPOSALS_PER_TOKEN = 20
MAX_PROPOSALS_PER_TOKEN_AND_DAY = 50
PROPOSAL_WINDOW = timedelta(days=1)
REJECTION_STANDS = timedelta(days=30)
"""For this time, an agent cannot propose a text again that people rejected or reverted."""
