"""Request the judge's verdict on two facts in the background.

What it says resolves the review only where it may: see `verdict_apply`; else the person who resolves it sees the
verdict.
"""

from typing import Any

from identity.principal import Principal
from memory.judge import JudgeFailed, JudgeResult, JudgeUnavailable, RelationVerdict, configured_judge
from memory.lifecycle.handler import Defer, Handler
from memory.models import Job, MemoryReview
from memory.services.reviews.resolve import verdict_apply
from memory.services.subjects.fact_snapshots import snapshot_of

BY = Principal.of_system("judge")


def _prepare(job: Job) -> JudgeResult[RelationVerdict] | str:
    review = (
        MemoryReview.objects.select_related("old", "new", "agent")
        .filter(agent=job.agent_id, pk=job.subject_id, status__in=MemoryReview.OPEN)
        .first()
    )
    if review is None or review.old is None or review.new is None:
        return "answered"
    judge = configured_judge()
    if judge is None:
        return "no judge"
    try:
        judge_result = judge.relation(
            agent=review.agent, persona=review.persona, old=snapshot_of(review.old), new=snapshot_of(review.new)
        )
    except JudgeUnavailable as error:
        raise Defer(str(error), retry_at=error.retry_at) from error
    except JudgeFailed as error:
        if error.retryable:
            raise
        return str(error)
    job.tokens += judge_result.tokens
    return judge_result


def _apply(job: Job, judge_result: JudgeResult[RelationVerdict] | str) -> dict[str, Any]:
    if isinstance(judge_result, str):
        return {"judge": judge_result}
    review = MemoryReview.objects.select_related("old", "new").filter(agent=job.agent_id, pk=job.subject_id).first()
    if review is None or review.old is None or review.new is None:
        return {"judge": "answered"}
    answer = verdict_apply(review=review, judge_result=judge_result, by=BY)
    return {"judge": str(judge_result.value.relation), "confidence": judge_result.value.confidence, "answer": answer}


FACT_JUDGE = Handler(apply=_apply, prepare=_prepare, activity="learn")
