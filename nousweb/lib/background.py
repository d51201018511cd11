"""Background work: the declaration of tasks, threads that repeat a call, and leases of shared work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from threading import Event, Thread
from typing import Any, TypeVar

import structlog
from django.db import connections
from django.utils.module_loading import autodiscover_modules, import_string

log = structlog.get_logger(__name__)
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Task:
    """A function that the worker may run, and what pages call it. With `minutes` it has a schedule, else it runs only
    when it is queued."""

    label: str
    minutes: int


_tasks: dict[str, Task] = {}


def task(path: str, label: str, function: Function, *, minutes: int = 0) -> Function:
    """Declare a function as the task of the worker that has this dotted path, a name in the module `tasks` of an
    app."""
    _tasks[path] = Task(label, minutes)
    return function


@cache
def tasks_declared() -> dict[str, Task]:
    """All tasks, by the dotted paths of their functions."""
    autodiscover_modules("tasks")
    return _tasks


def on_worker_start(path: str) -> None:
    """Call the function with this dotted path in each worker process that starts, and import it there."""
    from django_q.signals import post_spawn

    post_spawn.connect(lambda **signal: import_string(path)(), weak=False, dispatch_uid=path)


def repeat(call: Callable[[], object], *, name: str, pause: Callable[[], timedelta]) -> Event:
    """Call `call` after each `pause`, in a thread of this `name`, until the returned event is set or the process ends.

    An error is logged: the cause, such as a database that restarts, may be gone the next time.
    """
    stop = Event()

    def repeat_until_stopped() -> None:
        try:
            while not stop.wait(pause().total_seconds()):
                try:
                    call()
                except Exception as error:
                    log.warning("repeated_call_failed", thread=name, error=type(error).__name__)
                    connections.close_all()
        finally:
            connections.close_all()

    Thread(target=repeat_until_stopped, daemon=True, name=name).start()
    return stop


@dataclass(frozen=True, slots=True)
class LeasePolicy:
    """Times of leases and retries.

    A worker renews its lease every `renew_every`; after `lease` without renewal, another worker may take the work over.
    After a failed attempt it waits for `backoff_initial`, then twice as long each time up to `backoff_max`; after
    `max_attempts` it is given up.
    """

    lease: timedelta
    renew_every: timedelta
    max_attempts: int
    backoff_initial: timedelta
    backoff_max: timedelta

    def backoff(self, attempts: int) -> timedelta:
        """The waiting time after the n-th failed attempt."""
        return min(self.backoff_initial * 2 ** min(attempts - 1, 20), self.backoff_max)

    @contextmanager
    def renewal(self, renew: Callable[[], object], *, name: str) -> Iterator[None]:
        """Call `renew` from time to time, until the block ends. If it keeps failing, the lease ends."""
        stop = repeat(renew, name=name, pause=lambda: self.renew_every)
        try:
            yield
        finally:
            stop.set()
