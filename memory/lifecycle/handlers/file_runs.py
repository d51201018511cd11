"""Run an import or an export that a person started; an import in slices, so that other jobs run in between."""

from typing import Any
from uuid import UUID

from memory.lifecycle.handler import Handler
from memory.models import Job
from memory.transfer.file_runs import run_work, slice_continue


def _continue(job: Job, more: bool) -> dict[str, Any]:
    if more:
        slice_continue(UUID(job.subject_id))
    return {"more": more}


FILE_RUN = Handler(apply=_continue, prepare=lambda job: run_work(UUID(job.subject_id)))
