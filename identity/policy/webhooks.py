"""Rules of webhooks, declared as data."""

from datetime import timedelta

from nousweb.lib.lease import LeasePolicy

DELIVERY = LeasePolicy(
    lease=timedelta(seconds=40),
    renew_every=timedelta(seconds=10),
    max_attempts=10,
    backoff_initial=timedelta(seconds=1),
    backoff_max=timedelta(minutes=10),
)
"""A message that fails holds those after it back, so that the order stays; after ten attempts, in about nine minutes,
it is given up and the next one is tried."""

DISABLED_AFTER = 10
"""Messages given up in a row; then nothing more is tried until a person says so."""
CHANGES_IN_A_MESSAGE = 50
MESSAGES_IN_A_ROUND = 50
"""After so many a worker lets other webhooks have their turn."""
ROUND_SECONDS = 25.0
TIMEOUT_SECONDS = 10
ANSWER_BYTES = 64 * 1024
LOOK_EVERY = timedelta(seconds=1)
AT_ONCE = 4
"""Webhooks that a worker process sends to at a time, so that a slow receiver keeps no other waiting."""
MAX_WEBHOOKS = 20
SHORTEST_SECRET = 16
MANAGE = "identity.manage_webhook"
