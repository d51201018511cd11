"""django-q's queue and schedules, limited to the declared tasks, so that no row of them can call another function.

django-q runs any dotted path that a task names, calls the "hook" of a finished task, starts the next task of its
"chain", and runs a "sync" task at once. None of that is used here. A task that uses it, or names a function that is
not declared, is replaced by a call of `task_refused` when it is queued, and dropped when it is taken from the queue.
"""

from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.core.signing import BadSignature
from django.db import Error, transaction
from django.utils import timezone
from django.utils.module_loading import import_string
from django_q.conf import Conf
from django_q.core_signing import loads
from django_q.models import OrmQ, Schedule, Task
from django_q.signing import PickleSerializer, SignedPackage

from identity.principal import Principal
from identity.services.audit import audit_record
from memory.jobs import CHANGE, message_send
from nousweb.lib.background import tasks_declared
from nousweb.lib.errors import Conflict

log = structlog.get_logger(__name__)

REFUSED = "nousweb.queue.task_refused"
FORBIDDEN_OPTIONS = ("hook", "chain", "sync", "iter_count", "iter_cached")
"""Options of a task that would run something else, or outside of a worker."""
RETRY_SECONDS = 15
"""Until a failed task is run again. Without this it waits for `Q_CLUSTER["retry"]`, which is for lost workers and so
must exceed the time limit of every task several times."""
PAUSED = 0
FOREVER = -1
Broker: Any = import_string(
    "django_q.brokers.orm.ORM" if settings.BROKER == "orm" else "django_q.brokers.redis_broker.Redis"
)


class CheckedBroker(Broker):
    """The queue as the worker reads it: only declared tasks come out, also those that a former secret signed."""

    def dequeue(self) -> list[tuple[Any, Any]] | None:
        return allowed_only(self, super().dequeue())


def allowed_only(broker: Any, packages: list[tuple[Any, Any]] | None) -> list[tuple[Any, Any]] | None:
    """The packages whose task may run; the others leave the queue with a record of the refusal."""
    if packages is None:
        return None
    signed = [(key, _signed(package)) for key, package in packages]
    return [package for package in signed if _may_run(broker, *package)]


def task_allowed(task: Any) -> bool:
    """Whether an unpacked task names a declared function, as text, and uses no forbidden option."""
    if not isinstance(task, dict):
        return False
    function = task.get("func")
    declared = isinstance(function, str) and (function in tasks_declared() or function == REFUSED)
    return declared and not any(task.get(name) for name in FORBIDDEN_OPTIONS)


def task_check(*, task: dict[str, Any], **signal: Any) -> None:
    """Receiver of django-q's `pre_enqueue`: replace a forbidden task by `task_refused`.

    It does not raise: the scheduler queues all due tasks in one transaction, which one bad row would stop.
    """
    if task_allowed(task):
        return
    function = _function_name(task.get("func"))
    log.error("task_refused", function=function)
    for name in FORBIDDEN_OPTIONS:
        task.pop(name, None)
    # The task is removed from the queue even if it fails.
    task.update(func=REFUSED, args=(function,), kwargs={}, ack_failure=True)


def task_refused(function: str) -> int:
    """Record that `function` was not run, and pause every schedule of an undeclared function; returns how many."""
    schedules = list(Schedule.objects.exclude(func__in=tasks_declared()).exclude(repeats=PAUSED))
    for schedule in schedules:
        Schedule.objects.filter(pk=schedule.pk).update(repeats=PAUSED)
        audit_record(
            by=Principal.of_system("worker"),
            action="schedule.refuse",
            target=schedule,
            agent=None,
            before={"state": "running"},
            after={"state": "paused", "function": schedule.func[:200]},
            label=schedule.name or "",
            message="Its function is not one that the worker may run.",
        )
    if not schedules:
        _refusal_record(function)
    return len(schedules)


def failed_task_retry(*, task: dict[str, Any], **signal: Any) -> None:
    """Receiver of django-q's `post_execute_in_worker`: release the message of a failed task after RETRY_SECONDS.

    django-q deletes the message after its number of attempts (`max_attempts`). Only the queue in the database has
    messages to release. It does not raise: an error would end the process of the worker.
    """
    message = task.get("ack_id")
    if task.get("success") or task.get("ack_failure") or not message:
        return
    try:
        rows = OrmQ.objects.using(Conf.ORM).filter(pk=message, lock__gt=timezone.now())
        rows.update(lock=timezone.now() + timedelta(seconds=RETRY_SECONDS))
    except Error as error:
        log.warning("failed_task_not_released", error=type(error).__name__)


def schedules_sync() -> None:
    """Bring schedules in line with the declared tasks; pauses stay."""
    declared = {path: task for path, task in tasks_declared().items() if task.minutes}
    for path, task in declared.items():
        period = {"name": task.label, "minutes": task.minutes, "schedule_type": Schedule.MINUTES}
        if not Schedule.objects.filter(func=path).update(**period):
            Schedule.objects.create(func=path, repeats=FOREVER, **period)
    ours = Schedule.objects.filter(func__regex=r"^(identity|memory|context|nousweb\.console)\.")
    ours.exclude(func__in=declared).delete()


@transaction.atomic
def schedule_run(*, schedule: Schedule, by: Principal) -> None:
    """Run the task of a schedule once now, in addition to its own times."""
    by.require(CHANGE)
    by.require_all_agents()
    message_send(schedule.func)
    audit_record(by=by, action="schedule.run", target=schedule, agent=None, label=schedule.name)


@transaction.atomic
def schedule_pause(*, schedule: Schedule, by: Principal, pause: bool = True) -> Schedule:
    """Pause a schedule, or resume it. Raises Conflict if there is nothing to change, NotAllowed."""
    by.require(CHANGE)
    by.require_all_agents()
    schedule = Schedule.objects.select_for_update().get(pk=schedule.pk)
    action, state = ("schedule.pause", "paused") if pause else ("schedule.resume", "running")
    if (schedule.repeats == PAUSED) == pause:
        raise Conflict(f"This schedule is already {state}.")
    schedule.repeats = PAUSED if pause else FOREVER
    if not pause:
        # The worker uses the real time, not `nousweb.lib.clock`.
        schedule.next_run = timezone.now()
    schedule.save(update_fields=["repeats", "next_run"])
    audit_record(by=by, action=action, target=schedule, agent=None, after={"state": state}, label=schedule.name)
    return schedule


def _signed(package: Any) -> Any:
    """A package that a former secret signed, signed by the one of now; any other as it is."""
    for secret in settings.SECRET_KEY_FALLBACKS:
        try:
            return SignedPackage.dumps(loads(package, key=secret, salt=Conf.PREFIX, serializer=PickleSerializer))
        except Exception:  # noqa: S112  (not of this secret, or nothing that can be read: what follows says so)
            continue
    return package


def _may_run(broker: Any, key: Any, package: Any) -> bool:
    try:
        task = SignedPackage.loads(package)
    except (TypeError, BadSignature):
        # django-q drops what was not signed with our key, without opening it.
        return True
    except Exception as error:  # Signed, and yet nothing that can be read: it must not stop what stands behind it.
        task = type(error).__name__
    if task_allowed(task):
        return True
    asked = _function_name(task.get("func") if isinstance(task, dict) else task)
    log.error("task_refused", function=asked)
    broker.fail(key)
    _refusal_record(asked)
    return False


def _refusal_record(function: str) -> None:
    audit_record(
        by=Principal.of_system("worker"),
        action="task.refuse",
        target=Task(id=function[:32]),
        agent=None,
        label=function,
        message="It is not one of the functions that the worker may run.",
    )


def _function_name(function: object) -> str:
    """The function of a task as text for a record, whatever its type."""
    return function[:200] if isinstance(function, str) else repr(function)[:200]
