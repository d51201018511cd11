"""What the worker may run: a list, so that a row of the queue or of the schedules is never a way to any function.

django-q runs whatever dotted path a task names, calls the "hook" of a task when it is done, starts the next of its
"chain", and runs a "sync" task on the spot. None of that is used here. What asks for it, or names a function that is
not listed, is turned into a call of `task_refused` when it is queued, and dropped when it is taken from the queue.
"""

from typing import Any

import structlog
from django_q.models import Schedule, Task

from identity.principal import Principal
from identity.services.audit import audit_record
from nousweb.queue.schedules import SCHEDULES

log = structlog.get_logger(__name__)

REFUSED = "nousweb.queue.allowed_tasks.task_refused"
TASKS = frozenset(
    {path for path, _ in SCHEDULES.values()}
    | {"memory.tasks.lifecycle_run", "memory.tasks.derive_from_events", REFUSED}
)
"""Dotted paths of every function that the worker runs."""

FORBIDDEN_OPTIONS = ("hook", "chain", "sync", "iter_count", "iter_cached")
"""Options of a task that would run something besides it, or elsewhere than in a worker."""


def task_allowed(task: Any) -> bool:
    """Whether an unpacked task names a function of the list, as text, and asks for nothing besides."""
    if not isinstance(task, dict):
        return False
    function = task.get("func")
    return isinstance(function, str) and function in TASKS and not any(task.get(name) for name in FORBIDDEN_OPTIONS)


def task_check(*, task: dict[str, Any], **signal: Any) -> None:
    """Receiver of django-q's `pre_enqueue`: replace what may not run by a refusal that the worker writes down.

    It does not raise: the scheduler queues all that is due in one transaction, where one bad row would stop the others.
    """
    if task_allowed(task):
        return
    asked = function_name(task.get("func"))
    log.error("task_refused", function=asked)
    for name in FORBIDDEN_OPTIONS:
        task.pop(name, None)
    # Done once, also where it fails.
    task.update(func=REFUSED, args=(asked,), kwargs={}, ack_failure=True)


def task_refused(asked: str) -> int:
    """Leave a record that `asked` was not run, and pause every schedule that is not on the list; returns how many."""
    worker = Principal.of_system("worker")
    paused = 0
    for schedule in Schedule.objects.exclude(func__in=TASKS).exclude(repeats=0):
        Schedule.objects.filter(pk=schedule.pk).update(repeats=0)
        audit_record(
            by=worker,
            action="schedule.refuse",
            target=schedule,
            agent=None,
            before={"state": "running"},
            after={"state": "paused", "function": schedule.func[:200]},
            label=schedule.name or "",
            message="Its function is not one that the worker may run.",
        )
        paused += 1
    if not paused:
        refusal_record(asked)
    return paused


def refusal_record(asked: str) -> None:
    """Leave a record that the worker was asked to run `asked` and did not."""
    audit_record(
        by=Principal.of_system("worker"),
        action="task.refuse",
        target=Task(id=asked[:32]),
        agent=None,
        label=asked,
        message="It is not one of the functions that the worker may run.",
    )


def function_name(function: object) -> str:
    """What a task calls its function, for a record, whatever it is."""
    return function[:200] if isinstance(function, str) else repr(function)[:200]
