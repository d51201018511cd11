"""Escalate a censor that has matched often enough to a stricter severity. Source: seed 009.1, part 4."""

from typing import Any

from identity.principal import Principal
from memory.lifecycle.handler import Handler
from memory.models import Censor, Job
from memory.services.censors import censor_update
from memory.services.reviews.open_review import escalation_announce

BY = Principal.of_system("lifecycle")


def _apply(job: Job, prepared: None) -> dict[str, Any]:
    rows = Censor.objects.select_for_update(of=("self",)).select_related("agent")
    censor = rows.filter(agent=job.agent_id, pk=job.subject_id).first()
    if censor is None or not censor.active or not (higher := censor.escalates_to):
        return {"action": "none"}
    said = f"It matched {censor.activation_count} times; its threshold is {censor.escalation_threshold}."
    censor = censor_update(censor=censor, by=BY, severity=higher, message=said)
    escalation_announce(censor=censor, by=BY)
    return {"action": "escalated", "severity": higher, "activation_count": censor.activation_count}


CENSOR_ESCALATE = Handler(apply=_apply, learns=True)
