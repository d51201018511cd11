"""Compare a fact that was stored while no embedding or no judge was available, and get a judge's verdicts on pairs of
facts: on the pair of a review, and in the same call on other pairs of the agent that wait.

What the judge says resolves a review only where it may: see `verdict_apply`; else the person who resolves it sees it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db import transaction

from identity.principal import Principal
from memory.judge import (
    FactPair,
    JudgeResult,
    JudgeUnavailable,
    RelationVerdict,
    configured_judge,
    pairs_judge,
)
from memory.lifecycle.handler import Defer, Handler
from memory.lifecycle.judge_backlog import NO_JUDGE, OLDER_THAN, PENDING, backlog_continue, judgeable, unjudged
from memory.models import Fact, Job, MemoryReview, MemoryReviewQuerySet
from memory.services.facts.reconcile import MAX_VERDICTS_LATER, Precheck, fact_precheck, fact_reconcile
from memory.services.memory_write import learning_lock
from memory.services.reviews.resolve import verdict_apply
from memory.services.subjects.registry import snapshot_of
from memory.services.trust import least_trusted
from nousweb.lib import DomainError, clock

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


JUDGE = Principal.of_system("judge")


@dataclass(frozen=True, slots=True)
class PreparedVerdicts:
    """Verdicts by review. `judge`: what became of the job's own review if it has none."""

    verdicts: Mapping[UUID, JudgeResult[RelationVerdict]] = field(default_factory=dict)
    judge: str = ""


def _verdicts_prepare(job: Job) -> PreparedVerdicts:
    review = unjudged(_judged_reviews(job)).filter(pk=job.subject_id).first()
    if review is None:
        return PreparedVerdicts(judge="answered")
    judge = configured_judge()
    if judge is None:
        return PreparedVerdicts(judge=NO_JUDGE)
    pairs = {
        each.pk: pair
        for each in _with_others(review, _judged_reviews(job), judge.pairs_at_once)
        if (pair := _pair(each))
    }
    asked = pairs_judge(judge, agent=review.agent, persona=review.persona, pairs=pairs)
    job.tokens += asked.tokens
    error = asked.error
    if error is None or review.pk in asked.verdicts:
        return PreparedVerdicts(asked.verdicts)
    if not asked.verdicts and isinstance(error, JudgeUnavailable):
        raise Defer(str(error), retry_at=error.retry_at) from error
    if not asked.verdicts and error.retryable:
        raise error
    return PreparedVerdicts(asked.verdicts, PENDING if error.retryable else str(error))


def _judged_reviews(job: Job) -> MemoryReviewQuerySet:
    return MemoryReview.objects.select_related("old", "new", "agent").filter(agent=job.agent_id)


def _with_others(review: MemoryReview, reviews: MemoryReviewQuerySet, at_once: int) -> list[MemoryReview]:
    """A review, and others that wait for the judge as it does. New ones never wait for older ones."""
    before = clock.now() - OLDER_THAN
    age = {"created_at__lt": before} if review.created_at < before else {"created_at__gte": before}
    keys = judgeable(reviews.filter(persona=review.persona, **age).exclude(pk=review.pk), queued=True)
    return [review, *reviews.filter(pk__in=keys[: at_once - 1]).order_by("created_at", "id")]


def _pair(review: MemoryReview) -> FactPair | None:
    old, new = review.old, review.new
    if old is None or new is None:
        return None
    return FactPair(snapshot_of(old), snapshot_of(new), least_trusted((old.trust, new.trust)))


def _verdicts_apply(job: Job, prepared: PreparedVerdicts) -> dict[str, Any]:
    answers = {str(key): _answered(job, key, prepared.verdicts[key]) for key in sorted(prepared.verdicts)}
    if prepared.judge != NO_JUDGE:
        backlog_continue()
    answer = answers.pop(job.subject_id, None)
    others = {"others": len(answers)} if answers else {}
    if answer is None:
        return {"judge": prepared.judge or PENDING, **others}
    value = prepared.verdicts[UUID(job.subject_id)].value
    return {"judge": str(value.relation), "confidence": value.confidence, "answer": answer, **others}


def _answered(job: Job, key: UUID, judge_result: JudgeResult[RelationVerdict]) -> str | None:
    """Apply one verdict; returns the resolution, or None if that failed, which spoils no other verdict."""
    review = unjudged(_judged_reviews(job)).filter(pk=key).first()
    if review is None:
        return ""
    try:
        with transaction.atomic():
            return verdict_apply(review=review, judge_result=judge_result, by=JUDGE)
    except DomainError:
        return None


FACT_JUDGE = Handler(apply=_verdicts_apply, prepare=_verdicts_prepare, learns=True)
