"""The outbox of background work: jobs, messages to the worker, leases.

Messages only trigger work sooner: the tables are authoritative, and the worker polls them."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models import Count, Min
from django_q.brokers import get_broker
from django_q.models import OrmQ
from django_q.tasks import async_task

from identity.models import Agent
from memory.models import Job
from nousweb.lib import clock
from nousweb.lib.background import LeasePolicy
from nousweb.lib.transactions import sql_row

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


def message_send(task: str, *args: Any) -> None:
    """Queue the task with the dotted path `task` and `args`, which are ids, for the worker.

    With the database as broker, the message is part of the transaction. With another broker it is sent after the
    commit, so that it cannot arrive before the data; if the broker cannot be reached, only the message is lost.
    """
    if settings.BROKER == "orm":
        async_task(task, *args)
    else:
        transaction.on_commit(lambda: async_task(task, *args), robust=True)


def messages_waiting() -> tuple[int, datetime | None]:
    """The number of messages that wait for a worker, and the time of the oldest (None if the broker does not know it).

    Raises the errors of the Redis client if Redis cannot be reached.
    """
    if settings.BROKER != "orm":
        return get_broker().queue_size(), None
    # The lock of a due message is in the past; that of a message in progress is in the future.
    due = OrmQ.objects.filter(lock__lte=clock.now()).aggregate(count=Count("pk"), oldest=Min("lock"))
    return due["count"], due["oldest"]


_INSERT = """
INSERT INTO memory_job (key, handler, agent_id, persona, subject_type, subject_id, queued_at, next_attempt_at,
    status, attempts, tokens, result, error)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 'queued', 0, 0, '{}', '')
ON CONFLICT (key) DO NOTHING RETURNING id
"""

TASK = "memory.tasks.lifecycle_run"
CHANGE = "memory.change_job"
"""The permission to change jobs and schedules."""


def job_queue(handler: str, *, agent: Agent, persona: str, subject: models.Model, key: str = "") -> Job | None:
    """Queue a job of `handler` for `subject`; returns it, or None if a job with this key exists.

    `key` makes the job unique; the default is the handler and the subject. Call it in the transaction of the write.
    """
    key = key or f"{handler}:{subject.pk}"
    now = clock.now()
    row = sql_row(_INSERT, [key, handler, agent.pk, persona, subject._meta.model_name, str(subject.pk), now, now])
    if row is None:
        return None
    job_notify(row[0])
    return Job(pk=row[0], key=key, handler=handler, agent=agent)


def job_notify(job_id: int) -> None:
    """Send the message of a job to the worker."""
    message_send(TASK, job_id)
