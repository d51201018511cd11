"""Asking the judge what two facts are to each other, where nobody waits for the answer.

What it says resolves the review only where it may: see `verdict_apply`; else the person who resolves it sees the
verdict.
"""

from typing import Any

from identity.principal import Principal
from memory.judge import Judged, JudgeFailed, JudgeUnavailable, RelationVerdict, judge_in_force
from memory.lifecycle.handler import Defer, Handler
from memory.models import Job, MemoryReview
from memory.services.reviews.resolve import verdict_apply
from memory.services.subjects.fact_snapshots import snapshot_of

BY = Principal.of_system("judge")


def _prepare(job: Job) -> Judged[RelationVerdict] | str:
    review = (
        MemoryReview.objects.pending()
        .select_related("old", "new", "agent")
        .filter(agent=job.agent_id, pk=job.subject_id)
        .first()
    )
    if review is None or review.old is None or review.new is None:
        return "answered"
    judge = judge_in_force()
    if judge is None:
        return "no judge"
    try:
        judged = judge.relation(
            agent=review.agent, persona=review.persona, old=snapshot_of(review.old), new=snapshot_of(review.new)
        )
    except JudgeUnavailable as error:
        raise Defer(str(error), retry_at=error.retry_at) from error
    except JudgeFailed as error:
        if error.retryable:
            raise
        return str(error)
    job.tokens += judged.tokens
    return judged


def _apply(job: Job, judged: Judged[RelationVerdict] | str) -> dict[str, Any]:
    if isinstance(judged, str):
        return {"judge": judged}
    review = MemoryReview.objects.select_related("old", "new").filter(agent=job.agent_id, pk=job.subject_id).first()
    if review is None or review.old is None or review.new is None:
        return {"judge": "answered"}
    answer = verdict_apply(review=review, judged=judged, by=BY)
    return {"judge": str(judged.value.relation), "confidence": judged.value.confidence, "answer": answer}


FACT_JUDGE = Handler(apply=_apply, prepare=_prepare, activity="learn")
