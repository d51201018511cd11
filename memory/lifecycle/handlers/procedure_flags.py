"""Tag procedures by their rate of success; people and plans can filter by these tags."""

from typing import Any

from identity.principal import Principal
from memory.lifecycle.handler import Handler
from memory.lifecycle.job_thresholds import PROCEDURE_FLAGS as SHARES
from memory.lifecycle.job_thresholds import PROCEDURE_MIN_USES
from memory.models import Job, Procedure
from memory.services.procedures import procedure_update

BY = Principal.of_system("lifecycle")


def flag_of(successes: int, failures: int) -> str:
    """ "effective", "ineffective" or "" for a procedure with so many known outcomes."""
    known = successes + failures
    if known < PROCEDURE_MIN_USES:
        return ""
    (low, bad), (high, good) = SHARES
    share = successes / known
    return bad if share <= low else good if share >= high else ""


def _apply(job: Job, prepared: None) -> dict[str, Any]:
    names = {name for _, name in SHARES}
    changed = 0
    for procedure in Procedure.objects.active().filter(agent=job.agent).select_related("agent").order_by("pk"):
        flag = flag_of(procedure.success_count, procedure.failure_count)
        tags = sorted((set(procedure.tags) - names) | ({flag} if flag else set()))
        if tags != sorted(procedure.tags):
            procedure_update(procedure=procedure, by=BY, tags=tags[:20])
            changed += 1
    return {"flagged": changed}


PROCEDURE_FLAGS = Handler(apply=_apply, activity="dream")
