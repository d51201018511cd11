"""The type of the handlers of jobs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from memory.models import Job


class Defer(Exception):
    """A handler cannot run now. The job is retried at `retry_at`; this does not count as a failure."""

    def __init__(self, message: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(message)
        self.retry_at = retry_at


def nothing(job: Job) -> Any:
    return None


@dataclass(frozen=True, slots=True)
class Handler:
    """The two steps of a job.

    `prepare` runs outside of transactions; it may call models and may run more than once. `apply` gets its result and
    runs in the transaction that marks the job as done, so only once; it returns the job's result as JSON values,
    without text of memories. An `activity` of the subconscious is logged as a loop of its own.
    """

    apply: Callable[[Job, Any], dict[str, Any]]
    prepare: Callable[[Job], Any] = nothing
    activity: Literal["learn", "dream", ""] = ""
