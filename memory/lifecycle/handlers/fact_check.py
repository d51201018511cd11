"""Compare a fact that was stored while no embedding or no judge was available."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from identity.principal import Principal
from memory.judge import JudgeUnavailable
from memory.lifecycle.handler import Defer, Handler
from memory.lifecycle.judge_backlog import PENDING, backlog_continue
from memory.models import Fact, Job
from memory.services.facts.precheck import MAX_VERDICTS_LATER, Precheck, fact_precheck
from memory.services.facts.reconcile import fact_reconcile
from memory.services.memory_write import learning_lock

BY = Principal.of_system("lifecycle")


def _prepare(job: Job) -> Precheck | None:
    fact = _fact(job)
    if fact is None:
        return None
    precheck = fact_precheck(fact, exclude=[fact.pk, *_judged(job)], limit=MAX_VERDICTS_LATER, waiting=False)
    job.tokens += precheck.tokens
    if precheck.vector is None:
        raise Defer("The embedding model cannot be reached.")
    error = precheck.judge_error
    if precheck.verdicts or error is None or not error.retryable:
        return precheck
    if isinstance(error, JudgeUnavailable):
        raise Defer(str(error), retry_at=error.retry_at) from error
    raise error


def _fact(job: Job) -> Fact | None:
    return Fact.objects.select_related("agent").filter(agent=job.agent_id, pk=job.subject_id, active=True).first()


def _judged(job: Job) -> list[UUID]:
    """Older facts that the judge has compared with this one in an earlier run."""
    return [UUID(key) for key in job.result.get("judged", [])]


def _apply(job: Job, precheck: Precheck | None) -> dict[str, Any]:
    learning_lock(job.agent, job.persona)
    fact = _fact(job)
    backlog_continue()
    if fact is None or precheck is None:
        return {"action": "gone"}
    judged = _judged(job)
    result = fact_reconcile(fact=fact, by=BY, precheck=replace(precheck, comparisons={}), exclude=judged)
    told = {"action": result.action, "superseded": len(result.superseded), "asked": len(result.reviews)}
    if precheck.judge_error is None or not (precheck.unjudged and precheck.verdicts):
        return told
    # The verdicts that came are used; the pairs without one are asked about in another run.
    return told | {"judge": PENDING, "judged": [*map(str, judged), *map(str, precheck.verdicts)]}


FACT_CHECK = Handler(apply=_apply, prepare=_prepare, learns=True)
