"""What waits for a judge. New facts and episodes come first: of the backlog one job of each persona is queued at a
time, and only while no other work for the judge is open. Each such job requests the next one when it is done."""

from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import F, Q
from django_q.models import Schedule

from memory.jobs import message_send
from memory.models import Job, MemoryReview, MemoryReviewQuerySet
from nousweb.lib import clock

TASK = "memory.tasks.retry_judgements"
NO_JUDGE, PENDING = "no judge", "pending"
"""Results of jobs that are run again: there was no judge, or it gave no valid answer."""
OLDER_THAN = timedelta(minutes=5)
"""Reviews that have waited for longer are the backlog."""
PROGRESS_OF = timedelta(days=1)
MAX_READ = 5_000
"""Reviews that are looked at together."""
Status = Job.Status


TO_RERUN = Q(status=Status.DONE, result__judge__in=[NO_JUDGE, PENDING])
"""Jobs that are done and are still to ask a judge."""


def unjudged(reviews: MemoryReviewQuerySet) -> MemoryReviewQuerySet:
    """The open reviews of pairs of facts without a verdict. The judge is not asked about blind samples."""
    pairs = reviews.filter(status__in=MemoryReview.OPEN, verdict={}, old__isnull=False, new__isnull=False)
    return pairs.filter(details__blind__isnull=True)


def judgeable(reviews: MemoryReviewQuerySet, *, queued: bool) -> list[UUID]:
    """The oldest of `reviews` that the judge is still to be asked about, with or without those whose job is `queued`.

    A review whose own job has ended without a verdict is for people. Reviews and jobs are read apart, since a cluster
    has them on different servers.
    """
    keys = list(unjudged(reviews).order_by("created_at", "id").values_list("pk", flat=True)[:MAX_READ])
    waiting = TO_RERUN | Q(status__in=[Status.QUEUED, Status.FAILED]) if queued else TO_RERUN
    ended = Job.objects.filter(key__in=[f"fact_judge:{key}" for key in keys]).exclude(waiting)
    left_out = set(ended.values_list("subject_id", flat=True))
    return [key for key in keys if str(key) not in left_out]


def judged_work_open(persona: str) -> bool:
    """Whether jobs of a persona that ask the judge are queued, running or tried again soon."""
    soon = Q(status=Status.FAILED, next_attempt_at__lte=clock.now() + OLDER_THAN)
    asks = Q(handler__in=["fact_judge", "episode_close"]) & (Q(status__in=[Status.QUEUED, Status.RUNNING]) | soon)
    checks = Q(handler="fact_check", status__in=[Status.QUEUED, Status.RUNNING])
    return Job.objects.filter(asks | checks, persona=persona).exists()


def backlog_continue() -> None:
    """Request the next job of the backlog, behind all work that is queued now, unless people have paused it."""
    if settings.JUDGE != "none" and not Schedule.objects.filter(func=TASK, repeats=0).exists():
        message_send(TASK)


def backlog_progress(reviews: MemoryReviewQuerySet) -> tuple[int, int] | None:
    """The number of older reviews that were judged in the last day, and the total with the waiting ones. None if no
    review waits or there is no judge."""
    now = clock.now()
    if settings.JUDGE == "none":
        return None
    waiting = len(judgeable(reviews.filter(created_at__lt=now - OLDER_THAN), queued=True))
    late = Q(judge_call__created_at__gt=F("created_at") + OLDER_THAN)
    judged = reviews.filter(late, judge_call__created_at__gt=now - PROGRESS_OF).count()
    return (judged, judged + waiting) if waiting else None
