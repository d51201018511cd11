"""Rules of webhooks, declared as data."""

from datetime import timedelta

from nousweb.lib.background import LeasePolicy

DELIVERY = LeasePolicy(
    lease=timedelta(seconds=10),
    renew_every=timedelta(seconds=3),
    max_attempts=12,
    backoff_initial=timedelta(milliseconds=250),
    backoff_max=timedelta(minutes=10),
)
"""A failed message delays those after it, so that the order stays. A short failure of the receiver costs a quarter of a
second; after twelve attempts, in about nine minutes, the message is given up and the next one is tried. The message of
a killed worker is free again after ten seconds."""

DISABLED_AFTER = 10
"""Messages given up in a row; then nothing more is tried until a person says so."""
CHANGES_IN_A_MESSAGE = 500
"""Maximum number of changes in a message; it contains all pending ones, so that a webhook that is behind catches up."""
CHANGES_WITH_BODIES = 50
"""At most where bodies are sent too, each of which may be long."""
TURN_SECONDS = 5.0
"""After so long a webhook goes to the end of the queue, after the message that is being sent."""
TIMEOUT_SECONDS = 10
"""For each step of sending."""
EXCHANGE_SECONDS = 20.0
"""For one message in all, so that an answer which comes drop by drop holds no place for long."""
ANSWER_BYTES = 64 * 1024
LOOK_EVERY = timedelta(seconds=1)
LOOK_SOON = timedelta(milliseconds=250)
LOOK_SOON_FOR = timedelta(seconds=2)
"""A worker process looks every second, and four times as often while something is sent and two seconds longer, when it
may have to be tried again."""
AT_ONCE = 4
"""Webhooks that a worker process sends to at a time, so that a slow receiver keeps no other waiting."""
MAX_WEBHOOKS = 20
SHORTEST_SECRET = 16
FORMER_SECRET = timedelta(days=1)
"""After a change of the secret the former one signs each message too for so long, so that the receiver can follow."""
MANAGE = "identity.manage_webhook"
