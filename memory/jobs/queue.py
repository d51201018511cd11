"""The outbox of jobs: a job and its message, created in the transaction of the write that causes them."""

from django.db import connection, models

from identity.models import Agent
from memory.jobs.messages import message_send
from memory.models import Job
from nousweb.lib import clock

_INSERT = """
INSERT INTO memory_lifecyclerun (key, handler, agent_id, persona, subject_type, subject_id, queued_at, next_attempt_at,
    status, attempts, tokens, result, error)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 'queued', 0, 0, '{}', '')
ON CONFLICT (key) DO NOTHING RETURNING id
"""

TASK = "memory.tasks.lifecycle_run"


def job_queue(handler: str, *, agent: Agent, persona: str, subject: models.Model, key: str = "") -> Job | None:
    """Queue a job of `handler` for `subject`; returns it, or None if a job with this key exists.

    `key` makes the job unique; the default is the handler and the subject. Call it in the transaction of the write.
    """
    key = key or f"{handler}:{subject.pk}"
    now = clock.now()
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [key, handler, agent.pk, persona, subject._meta.model_name, str(subject.pk), now, now])
        row = cursor.fetchone()
    if row is None:
        return None
    job_notify(row[0])
    return Job(pk=row[0], key=key, handler=handler, agent=agent)


def job_notify(job_id: int) -> None:
    """Send the message of a job to the worker."""
    message_send(TASK, job_id)
