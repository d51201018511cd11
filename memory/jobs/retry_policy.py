"""Leases and retries of jobs and embeddings."""

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
"""A worker keeps its job despite a late renewal or one database error."""
EMBEDDING_LEASE = replace(JOB_LEASE, max_attempts=8, backoff_max=timedelta(minutes=15))
LOST_AFTER = timedelta(seconds=30)
"""A queued job that no worker has started after this time, while no messages wait, gets another message."""
LOST_IN_BACKLOG = timedelta(minutes=5)
"""The same while messages wait, of which one may be its own. A second message is harmless, but lengthens the queue."""
REQUEUE_EVERY = timedelta(seconds=5)
"""Interval at which each worker looks for due jobs, besides its tasks; schedules run at most once a minute."""
REQUEUE_BATCH = 500
KEEP_DONE_JOBS = timedelta(days=90)
