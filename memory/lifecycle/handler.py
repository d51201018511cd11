"""The type of the handlers of jobs, and the constants of their rules."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from memory.models import Job


class Defer(Exception):
    """A handler cannot run now. The job is retried at `retry_at`; this does not count as a failure."""

    def __init__(self, message: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(message)
        self.retry_at = retry_at


@dataclass(frozen=True, slots=True)
class Handler:
    """The two steps of a job.

    `prepare` runs outside of transactions; it may call models and may run more than once. `apply` gets its result and
    runs in the transaction that marks the job as done, so only once; it returns the job's result as JSON values,
    without text of memories. What a job `learns` is logged as a loop of the subconscious.
    """

    apply: Callable[[Job, Any], dict[str, Any]]
    prepare: Callable[[Job], Any] = lambda job: None
    learns: bool = False


LOW_CONFIDENCE = 0.5
"""An extracted fact with a lower confidence opens a review."""

STALE_AFTER = timedelta(days=180)
STALE_CONFIDENCE_STEP = 0.1
STALE_CONFIDENCE_FLOOR = 0.3
NEVER_STALE = ("rule", "preference", "person", "concept")
"""Facts of these categories do not become stale. Source: the pitfalls of earlier systems, 12."""

CORE_CONFIRMATIONS = 5
CORE_IMPORTANCE = 0.9

PROCEDURE_MIN_USES = 5
PROCEDURE_FLAGS = ((0.4, "ineffective"), (0.8, "effective"))
"""Flagged "ineffective" up to the first share of successes, "effective" from the second on."""

CENSOR_MIN_ACTIVATIONS = 5
CENSOR_FALSE_SHARE = 0.5
"""A censor with more false positives than this share of its activations is retired. Source: seed 009.1, phase 2."""

COMPACTION_FACTS = 10
"""A subject with more active facts than this is proposed for compaction."""
COMPACTION_LISTED = 30
