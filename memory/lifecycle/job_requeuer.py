"""A thread of each worker process that requeues due jobs every few seconds.

Schedules run at most once a minute, which is too slow for a job's next attempt or for the job of a killed worker.
Pausing the schedule pauses this thread too.
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
"""Functions of other apps that queue jobs for due work of theirs and return how many are new."""


def reaper_start(**signal: Any) -> None:
    """Start the thread; receives django-q's signal that a worker process has started."""
    Thread(target=_requeue_forever, daemon=True, name="job-requeuer").start()


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
