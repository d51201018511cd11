"""How long jobs and embeddings are leased, and when and how often they are tried again, declared as data."""

from dataclasses import replace
from datetime import timedelta

from nousweb.lib.lease import LeasePolicy

JOB_LEASE = LeasePolicy(
    lease=timedelta(seconds=20),
    renew_every=timedelta(seconds=5),
    max_attempts=5,
    backoff_initial=timedelta(seconds=15),
    backoff_max=timedelta(hours=1),
)
"""A sign of life that comes late, or one database error, costs a worker no job."""
EMBEDDING_LEASE = replace(JOB_LEASE, max_attempts=8, backoff_max=timedelta(minutes=15))
LOST_AFTER = timedelta(seconds=30)
"""A queued job that nobody took up for so long, though no message waits, has lost its message, and gets another."""
LOST_IN_BACKLOG = timedelta(minutes=5)
"""The same while messages wait, of which one may be its own; a second one does no harm, but makes the queue longer."""
REQUEUE_EVERY = timedelta(seconds=5)
"""How often each worker looks for jobs that are due, beside its tasks; the clock of the schedules ticks in minutes."""
REQUEUE_BATCH = 500
KEEP_DONE_JOBS = timedelta(days=90)
