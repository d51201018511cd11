"""Retire censors whose matches people mostly reported as false positives. Source: seed 009.1, part 4."""

from typing import Any

from django.db.models import F

from identity.principal import Principal
from memory.lifecycle.handler import Handler
from memory.lifecycle.job_thresholds import CENSOR_FALSE_SHARE, CENSOR_MIN_ACTIVATIONS
from memory.models import Censor, Job
from memory.services.censors import censor_retire

BY = Principal.of_system("lifecycle")


def _apply(job: Job, prepared: None) -> dict[str, Any]:
    mistaken = (
        Censor.objects.active()
        .filter(
            agent=job.agent,
            activation_count__gte=CENSOR_MIN_ACTIVATIONS,
            false_positive_count__gt=F("activation_count") * CENSOR_FALSE_SHARE,
        )
        .exclude(severity=Censor.Severity.ABSOLUTE)
        .select_related("agent")
        .order_by("pk")
    )
    retired = []
    for censor in mistaken:
        said = f"{censor.false_positive_count} of {censor.activation_count} matches were false positives."
        censor_retire(censor=censor, by=BY, message=said)
        retired.append(str(censor.pk))
    return {"retired": retired}


CENSOR_RETIRE = Handler(apply=_apply, activity="dream")
