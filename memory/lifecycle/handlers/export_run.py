"""Write the file of an agent export that a person started."""

from typing import Any
from uuid import UUID

from memory.lifecycle.handler import Handler
from memory.models import Job
from memory.transfer.export_runs import export_work


def _prepare(job: Job) -> None:
    export_work(UUID(job.subject_id))


def _apply(job: Job, prepared: None) -> dict[str, Any]:
    return {}


EXPORT_RUN = Handler(apply=_apply, prepare=_prepare)
