"""The list of functions that the worker may run, so that no row of the queue or the schedules can call any other.

django-q runs any dotted path that a task names, calls the "hook" of a finished task, starts the next task of its
"chain", and runs a "sync" task at once. None of that is used here. A task that uses it, or names a function that is
not listed, is replaced by a call of `task_refused` when it is queued, and dropped when it is taken from the queue.
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
"""Options of a task that would run something else, or outside of a worker."""


def task_allowed(task: Any) -> bool:
    """Whether an unpacked task names a function of the list, as text, and uses no forbidden option."""
    if not isinstance(task, dict):
        return False
    function = task.get("func")
    return isinstance(function, str) and function in TASKS and not any(task.get(name) for name in FORBIDDEN_OPTIONS)


def task_check(*, task: dict[str, Any], **signal: Any) -> None:
    """Receiver of django-q's `pre_enqueue`: replace a forbidden task by `task_refused`.

    It does not raise: the scheduler queues all due tasks in one transaction, which one bad row would stop.
    """
    if task_allowed(task):
        return
    function = function_name(task.get("func"))
    log.error("task_refused", function=function)
    for name in FORBIDDEN_OPTIONS:
        task.pop(name, None)
    # The task is removed from the queue even if it fails.
    task.update(func=REFUSED, args=(function,), kwargs={}, ack_failure=True)


def task_refused(function: str) -> int:
    """Record that `function` was not run, and pause every schedule that is not on the list; returns how many."""
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
        refusal_record(function)
    return paused


def refusal_record(function: str) -> None:
    """Record that the worker refused to run `function`."""
    audit_record(
        by=Principal.of_system("worker"),
        action="task.refuse",
        target=Task(id=function[:32]),
        agent=None,
        label=function,
        message="It is not one of the functions that the worker may run.",
    )


def function_name(function: object) -> str:
    """The function of a task as text for a record, whatever its type."""
    return function[:200] if isinstance(function, str) else repr(function)[:200]
