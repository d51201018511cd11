"""The outbox of the lifecycle: a job and its message, made in the transaction of the write that they react to."""

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
    """Let `handler` react to `subject` once; returns the job, or None when this key has one already.

    `key` is what makes it once, by default the handler and the subject. Called inside the transaction of the write.
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
    """Send a worker the message of a job."""
    message_send(TASK, job_id)
