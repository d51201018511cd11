"""What a worker's process does beside its tasks: looking for jobs that are due, every few seconds.

The clock of the schedules ticks in minutes, and a job that waits for its next attempt, or was held by a worker that was
killed, should not wait so long. Pausing the schedule pauses this as well.
"""

from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import structlog
from django.db import connection
from django_q.models import Schedule

from memory.jobs.retry_policy import REQUEUE_EVERY
from memory.lifecycle.runner import due_jobs_requeue

log = structlog.get_logger(__name__)

REQUEUE_TASK = "memory.tasks.sweep_lifecycle"
job_sources: list[Callable[[], int]] = []
"""Each looks in its app for what has come due, queues jobs for it, and returns how many are new."""


def reaper_start(**signal: Any) -> None:
    """Let this process look for due jobs until it ends; receives django-q's signal that a worker process began."""
    Thread(target=_requeue_forever, daemon=True, name="job-reaper").start()


def _requeue_forever() -> None:
    pause = Event()
    while not pause.wait(REQUEUE_EVERY.total_seconds()):
        try:
            if not Schedule.objects.filter(func=REQUEUE_TASK, repeats=0).exists():
                due_jobs_requeue()
                for source in job_sources:
                    source()
        except Exception as error:  # Whatever it is, such as a database that restarts: the next time may do.
            log.warning("due_jobs_requeue_failed", error=type(error).__name__)
            connection.close()
