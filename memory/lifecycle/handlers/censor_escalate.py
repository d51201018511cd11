"""Letting a censor rise that has matched often enough. Source: seed 009.1, part 4."""

from typing import Any

from identity.principal import Principal
from memory.lifecycle.handler import Handler
from memory.models import Censor, Job
from memory.policy import CENSOR_SEVERITIES_BY_AUTHOR, ESCALATES_TO
from memory.services.censors import censor_update
from memory.services.reviews.opening import escalation_announce

BY = Principal.of_system("lifecycle")


def escalated(severity: str, activations: int, threshold: int, author_kind: str) -> str:
    """The severity that a censor rises to, or "" when it stays: one step, at the threshold, within its author's cap."""
    higher = ESCALATES_TO.get(severity, "")
    allowed = higher in CENSOR_SEVERITIES_BY_AUTHOR.get(author_kind, ())
    return higher if allowed and activations >= threshold else ""


def _apply(job: Job, prepared: None) -> dict[str, Any]:
    censor = Censor.objects.select_for_update(of=("self",)).select_related("agent").filter(pk=job.subject_id).first()
    if censor is None or not censor.active:
        return {"action": "none"}
    higher = escalated(censor.severity, censor.activation_count, censor.escalation_threshold, censor.author_kind)
    if not higher:
        return {"action": "none"}
    said = f"It matched {censor.activation_count} times; its threshold is {censor.escalation_threshold}."
    censor = censor_update(censor=censor, by=BY, severity=higher, message=said)
    escalation_announce(censor=censor, by=BY)
    return {"action": "escalated", "severity": higher, "activation_count": censor.activation_count}


CENSOR_ESCALATE = Handler(apply=_apply, activity="learn")
