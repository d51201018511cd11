"""Compare a fact by meaning that was stored while no embedding was available."""

from typing import Any

from identity.principal import Principal
from memory.lifecycle.handler import Defer, Handler
from memory.models import Fact, Job
from memory.services.facts.comparison_candidates import Vector
from memory.services.facts.learn import fact_reconcile
from memory.services.facts.locks import learning_lock
from memory.services.facts.precheck import Precheck, vector_of

BY = Principal.of_system("lifecycle")


def _prepare(job: Job) -> Vector | None:
    fact = Fact.objects.filter(agent=job.agent_id, pk=job.subject_id, active=True).first()
    if fact is None:
        return None
    vector = vector_of(fact.content)
    if vector is None:
        raise Defer("The embedding model cannot be reached.")
    return vector


def _apply(job: Job, vector: Vector | None) -> dict[str, Any]:
    learning_lock(job.agent, job.persona)
    fact = Fact.objects.select_related("agent").filter(agent=job.agent_id, pk=job.subject_id, active=True).first()
    if fact is None or vector is None:
        return {"action": "gone"}
    result = fact_reconcile(fact=fact, by=BY, precheck=Precheck(vector))
    return {"action": result.action, "superseded": len(result.superseded), "asked": len(result.reviews)}


FACT_CHECK = Handler(apply=_apply, prepare=_prepare, activity="learn")
