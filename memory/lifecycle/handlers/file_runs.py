"""Run an import or an export that a person started; an import in slices, so that other jobs run in between."""

from typing import Any
from uuid import UUID

from memory.lifecycle.handler import Handler
from memory.models import Job
from memory.transfer.export_runs import export_work
from memory.transfer.import_runs import run_work, slice_continue


def _import(job: Job) -> bool:
    return run_work(UUID(job.subject_id))


def _import_continue(job: Job, more: bool) -> dict[str, Any]:
    if more:
        slice_continue(UUID(job.subject_id))
    return {"more": more}


IMPORT_RUN = Handler(apply=_import_continue, prepare=_import)


def _export(job: Job) -> None:
    export_work(UUID(job.subject_id))


def _export_done(job: Job, prepared: None) -> dict[str, Any]:
    return {}


EXPORT_RUN = Handler(apply=_export_done, prepare=_export)
