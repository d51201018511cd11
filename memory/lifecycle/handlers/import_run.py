"""Run an import that a person started, in slices, so that other jobs run in between."""

from typing import Any
from uuid import UUID

from memory.lifecycle.handler import Handler
from memory.models import Job
from memory.transfer.import_runs import run_work, slice_continue


def _prepare(job: Job) -> bool:
    return run_work(UUID(job.subject_id))


def _apply(job: Job, more: bool) -> dict[str, Any]:
    if more:
        slice_continue(UUID(job.subject_id))
    return {"more": more}


IMPORT_RUN = Handler(apply=_apply, prepare=_prepare)
