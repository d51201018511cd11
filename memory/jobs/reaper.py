"""What a worker's process does beside its tasks: looking for runs that are due, every few seconds.

The clock of the schedules ticks in minutes, and a run that waits for its next attempt, or was held by a worker that was
killed, should not wait so long. Pausing the schedule pauses this as well.
"""

from threading import Event, Thread
from typing import Any

import structlog
from django.db import connection
from django_q.models import Schedule

from memory.jobs.runner import runs_sweep
from memory.lifecycle.policy import SWEEP_EVERY

log = structlog.get_logger(__name__)

SWEEP = "memory.tasks.sweep_lifecycle"


def reaper_start(**signal: Any) -> None:
    """Let this process sweep until it ends; receives django-q's signal that a worker process began."""
    Thread(target=_sweep_for_ever, daemon=True, name="lifecycle-sweep").start()


def _sweep_for_ever() -> None:
    pause = Event()
    while not pause.wait(SWEEP_EVERY.total_seconds()):
        try:
            if not Schedule.objects.filter(func=SWEEP, repeats=0).exists():
                runs_sweep()
        except Exception as error:  # Whatever it is, such as a database that restarts: the next time may do.
            log.warning("lifecycle_sweep_failed", error=type(error).__name__)
            connection.close()
