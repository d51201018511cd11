"""Compare a fact that was stored while no embedding or no judge was available."""

from dataclasses import replace
from typing import Any

from identity.principal import Principal
from memory.judge import JudgeUnavailable
from memory.lifecycle.handler import Defer, Handler
from memory.models import Fact, Job
from memory.services.facts.learn import fact_reconcile
from memory.services.facts.locks import learning_lock
from memory.services.facts.precheck import MAX_VERDICTS_LATER, Precheck, fact_precheck

BY = Principal.of_system("lifecycle")


def _prepare(job: Job) -> Precheck | None:
    fact = _fact(job)
    if fact is None:
        return None
    precheck = fact_precheck(fact, exclude=[fact.pk], limit=MAX_VERDICTS_LATER)
    if precheck.vector is None:
        raise Defer("The embedding model cannot be reached.")
    if isinstance(precheck.judge_error, JudgeUnavailable):
        raise Defer(str(precheck.judge_error), retry_at=precheck.judge_error.retry_at) from precheck.judge_error
    if precheck.judge_error is not None and precheck.judge_error.retryable:
        raise precheck.judge_error
    job.tokens += sum(judge_result.tokens for judge_result in precheck.verdicts.values())
    return precheck


def _fact(job: Job) -> Fact | None:
    return Fact.objects.select_related("agent").filter(agent=job.agent_id, pk=job.subject_id, active=True).first()


def _apply(job: Job, precheck: Precheck | None) -> dict[str, Any]:
    learning_lock(job.agent, job.persona)
    fact = _fact(job)
    if fact is None or precheck is None:
        return {"action": "gone"}
    result = fact_reconcile(fact=fact, by=BY, precheck=replace(precheck, comparisons={}, near=None))
    return {"action": result.action, "superseded": len(result.superseded), "asked": len(result.reviews)}


FACT_CHECK = Handler(apply=_apply, prepare=_prepare, activity="learn")
