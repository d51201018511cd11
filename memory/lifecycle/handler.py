"""What a handler of the lifecycle is."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from memory.models import Job


class Defer(Exception):
    """What a handler needs cannot be had now; it is tried again at `retry_at`, which counts as no failure."""

    def __init__(self, said: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(said)
        self.retry_at = retry_at


def nothing(job: Job) -> Any:
    return None


@dataclass(frozen=True, slots=True)
class Handler:
    """`prepare` runs outside of every transaction, may ask models and may run more than once. `apply` makes the effect
    out of what was prepared, in the transaction that marks the job done, so once; it returns the job's result, ready
    for JSON and without quoting memories. What is an `activity` of the subconscious is logged as a loop of its own."""

    apply: Callable[[Job, Any], dict[str, Any]]
    prepare: Callable[[Job], Any] = nothing
    activity: Literal["learn", "dream", ""] = ""
