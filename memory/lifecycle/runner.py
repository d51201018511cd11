"""Run queued jobs: each is leased by one worker, applied once, and retried with increasing delays until it is dead.

What the lifecycle did is logged as loops of the subconscious persona. Source: seed "Agentic Memory System", Prompt Loop
Boundaries. A loop of learning is about one memory; a dream is one day of one agent, with an event for each of its jobs.
Texts name memories by id and never quote them.
"""

import time
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog
from django.db import Error, connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils.module_loading import import_string
from django_q.models import Schedule

from identity.models import Agent, Persona
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_shared, agent_transaction
from identity.services.audit import audit_record
from memory.embedding import EmbeddingFailed
from memory.jobs import (
    CHANGE,
    JOB_LEASE,
    KEEP_DONE_JOBS,
    LOST_AFTER,
    LOST_IN_BACKLOG,
    REQUEUE_BATCH,
    REQUEUE_EVERY,
    job_notify,
    job_queue,
    messages_waiting,
)
from memory.judge import JudgeFailed, configured_judge
from memory.judge.model_judge import budget_check
from memory.layers.event_validation import MAX_KEY_CHARACTERS
from memory.lifecycle.handler import Defer, Handler
from memory.lifecycle.handlers import DREAM, handlers
from memory.lifecycle.job_words import handler_label, result_text
from memory.lifecycle.judge_backlog import TO_RERUN, Status, judgeable, judged_work_open
from memory.models import Event, EventKind, Job, MemoryReview
from memory.registrations import job_sources
from memory.services.events import RecordedEvent, RepeatedKey, erased_keys, events_record
from nousweb.lib import Conflict, DomainError, clock
from nousweb.lib.background import repeat
from nousweb.lib.tracing import span
from nousweb.lib.transactions import transaction_retried

BY = Principal.of_system("lifecycle")
HEALED_BACK = timedelta(days=2)
BATCH = 500
VISIBILITY = "internal"

Draft = dict[str, Any]


def activity_record(job: Job) -> bool:
    """Log what a done job learned or dreamed, once for each run of it; False where its handler does neither.

    It is a transaction of its own: the log of the subconscious is written one call after another, and a job that waited
    for its turn would keep the actor waiting for what the job has locked.
    """
    handler = handlers().get(job.handler)
    if handler is None or not (handler.learns or job.handler in DREAM):
        return False

    def record(events: list[Draft]) -> list[RecordedEvent]:
        erased = erased_keys(job.agent, Persona.SUBCONSCIOUS, [event["key"] for event in events])
        left = [event for event in events if event["key"] not in erased]
        return events_record(agent=job.agent, events=left, by=BY, persona=Persona.SUBCONSCIOUS) if left else []

    label = handler_label(job.handler)
    told: Draft = {"handler": job.handler, "subject_type": job.subject_type, "subject_id": job.subject_id}
    done: Draft = {
        "key": _key(job),
        "content": f"{label}: {result_text(job.result) or 'nothing to do'}.",
        "metadata": {**told, "result": job.result, "tokens": job.tokens},
    }
    if job.handler in DREAM:
        day = f"{job.queued_at:%Y-%m-%d}"
        loop = {"loop_id": f"dream:{day}", "visibility": VISIBILITY}
        opening: Draft = {
            "key": f"dream:{day}:prompt",
            "content": f"Dream of {day}. {'. '.join(map(handler_label, DREAM))}.",
        }
        drafts = [
            {**loop, **opening, "kind": EventKind.SUBCONSCIOUS_PROMPT.value},
            {**loop, **done, "kind": EventKind.SYSTEM_EVENT.value},
        ]
        recorded = record(events=drafts)
        if (closing := _dream_summary(job, day, parts=len(DREAM))) is not None:
            record(events=[{**loop, **closing, "kind": EventKind.SUBCONSCIOUS_OUTPUT.value}])
    else:
        loop = {"loop_id": f"learn:{job.handler}:{job.subject_id}", "visibility": VISIBILITY}
        prompt = f"{label}: {job.subject_type} {job.subject_id}."
        opening = {"key": f"{_key(job)}:prompt", "content": prompt, "metadata": told, "ts": job.started_at}
        drafts = [
            {**loop, **opening, "kind": EventKind.SUBCONSCIOUS_PROMPT.value},
            {**loop, **done, "kind": EventKind.SUBCONSCIOUS_OUTPUT.value, "ts": job.finished_at},
        ]
        recorded = record(events=drafts)
    return bool(recorded) and not recorded[-1].repeated


def activities_heal() -> int:
    """Log what jobs of the last days did and the log lacks, since their worker was killed; returns how many."""
    active = [name for name, handler in handlers().items() if handler.learns or name in DREAM]
    done = Job.objects.filter(
        status=Job.Status.DONE, handler__in=active, finished_at__gte=clock.now() - HEALED_BACK
    ).select_related("agent")
    healed, last = 0, 0
    while jobs := list(done.filter(pk__gt=last).order_by("pk")[:BATCH]):
        keys = {job.pk: _key(job) for job in jobs}
        logged = set(
            Event.objects.filter(
                agent__in={job.agent_id for job in jobs}, persona=Persona.SUBCONSCIOUS, key__in=keys.values()
            ).values_list("agent_id", "key")
        )
        for job in jobs:
            if (job.agent_id, keys[job.pk]) not in logged:
                # A token of the subconscious may have taken a key, and must not keep the others' from being logged.
                with suppress(RepeatedKey):
                    healed += activity_record(job)
        last = jobs[-1].pk
    return healed


def _dream_summary(job: Job, day: str, *, parts: int) -> dict[str, str] | None:
    """The event that closes the loop of a dream, once all its parts are in the log; None before, and afterwards."""
    key = f"dream:{day}:output"
    events = Event.objects.filter(agent=job.agent, persona=Persona.SUBCONSCIOUS, loop_id=f"dream:{day}")
    found = list(events.order_by("ts", "id").values_list("key", "kind", "metadata__handler", "content"))
    said = {handler: content for _, kind, handler, content in found if kind == EventKind.SYSTEM_EVENT}
    if len(said) < parts or any(known == key for known, *_ in found):
        return None
    return {"key": key, "content": "\n".join([f"Dreamed of {day}.", *(said[name] for name in sorted(said))])}


def _key(job: Job) -> str:
    """One for each time that the job was queued: what is run again has something new to tell."""
    return f"{job.key[: MAX_KEY_CHARACTERS - 50]}:{job.queued_at:%Y%m%dT%H%M%S%f}"


log = structlog.get_logger(__name__)
MAX_TRIES_FIRST = 3
MAX_PREPARATIONS = 3
"""Maximum number of preparations in a row, if erasures invalidate them."""
REQUEUE_TASK = "memory.tasks.sweep_lifecycle"


def job_run(job_id: int) -> str:
    """Run one queued job; returns its new status, or "not ours" if another worker has it or has done it.

    1. Lease it, so that only one of two workers with the same message continues.
    2. Prepare outside of transactions: models are called here. The lease is renewed meanwhile.
    3. Apply the result and mark the job as done in one transaction, if the lease is still valid. If something of the
       agent was erased since the preparation, prepare again, since the result may contain the erased text.
    """
    job = _claim(job_id)
    if job is None:
        return "not ours"
    about = {"nous.job.handler": job.handler, "gen_ai.agent.id": job.agent.slug}
    with span(f"job {job.handler}", about) as within:
        state = _run(job)
        within.set_attributes({"nous.job.state": state, "nous.job.attempt": job.attempts})
    return state


def _run(job: Job) -> str:
    began = time.monotonic()
    try:
        with JOB_LEASE.renewal(partial(_renew, job), name=f"job-{job.pk}"):
            handler = handlers()[job.handler]
            for _ in range(MAX_PREPARATIONS):
                prepared = handler.prepare(job)
                applied = transaction_retried(partial(_apply, job, handler, prepared, began))
                if applied is not None:
                    if applied:
                        _log_activity(job)
                    return job.status if applied else "not ours"
                job.agent.refresh_from_db()
            raise Defer("The data of this agent is repeatedly being erased.")
    except Defer as later:
        _postpone(job, later, began)
    except Exception as error:  # One handler that fails must not end the worker that runs the others.
        log.exception("job_failed", job=job.pk, handler=job.handler)
        _fail(job, error, began)
    return job.status


def _apply(job: Job, handler: Handler, prepared: Any, began: float) -> bool | None:
    """Apply the prepared result and finish the job. None: prepare again. False: the lease was lost."""
    before = job.result
    try:
        with transaction.atomic(), agent_lock_shared(job.agent_id) as erasures:
            if erasures != job.agent.erasures:
                return None
            # Locked until the transaction ends, unless another worker has taken the job over.
            if _held(job).select_for_update().first() is None:
                return False
            job.result = handler.apply(job, prepared)
            _finish(job, Status.DONE, began)
    except Error:
        job.result = before
        raise
    return True


def _log_activity(job: Job) -> None:
    """Log the activity of a job. If that fails, the job is done nevertheless, and `activities_heal` logs it later."""
    try:
        transaction_retried(partial(activity_record, job))
    except Exception:
        log.exception("activity_not_logged", job=job.pk, handler=job.handler)


def due_jobs_requeue() -> int:
    """Send messages for due jobs that no worker has started; returns how many.

    These are jobs with a due retry, jobs of killed workers, and jobs whose message was lost. While messages wait, a
    queued job counts as lost after LOST_IN_BACKLOG only.
    """
    now = clock.now()
    with transaction.atomic():
        # Jobs that a worker is finishing are locked, and are skipped.
        due = Job.objects.due(now).select_for_update(skip_locked=True).order_by("next_attempt_at", "id")
        gone = due.filter(status=Status.RUNNING, attempts__gte=JOB_LEASE.max_attempts).values_list("pk", flat=True)
        said = f"Its worker was stopped {JOB_LEASE.max_attempts} times."
        Job.objects.filter(pk__in=list(gone)).update(status=Status.DEAD, finished_at=now, error=said)
        patience = LOST_IN_BACKLOG if messages_waiting()[0] else LOST_AFTER
        untaken = Q(status=Status.QUEUED, next_attempt_at__lte=now - patience)
        keys = list(due.filter(~Q(status=Status.QUEUED) | untaken).values_list("pk", flat=True)[:REQUEUE_BATCH])
        # `next_attempt_at` is set, so that the next message follows after a while and not at the next call.
        Job.objects.filter(pk__in=keys).update(next_attempt_at=now, status=Status.QUEUED)
        for key in keys:
            job_notify(key)
    return len(keys)


def requeuer_start() -> None:
    """Let a worker process look for due jobs every few seconds, until it ends.

    Schedules run at most once a minute, which is too slow for a job's next attempt or for the job of a killed worker.
    Pausing the schedule pauses this too.
    """
    repeat(due_work_queue, name="job-requeuer", pause=lambda: REQUEUE_EVERY)


def due_work_queue() -> None:
    """Requeue due jobs, and queue those of other apps, unless people have paused it."""
    if not Schedule.objects.filter(func=REQUEUE_TASK, repeats=0).exists():
        due_jobs_requeue()
        for path in job_sources:
            import_string(path)()


def purge_done_jobs() -> int:
    """Delete jobs that were done KEEP_DONE_JOBS ago; returns how many. Dead jobs stay."""
    old = Job.objects.filter(status=Status.DONE, finished_at__lt=clock.now() - KEEP_DONE_JOBS)
    return old.delete()[0]


@agent_transaction(of="job")
def job_retry(*, job: Job, by: Principal) -> Job:
    """Retry a dead or failed job now, with all of its attempts.

    Raises NotAllowed, or Conflict for a job in another state.
    """
    by.require(CHANGE, job.agent)
    job = Job.objects.select_for_update(of=("self",)).select_related("agent").get(pk=job.pk)
    if job.status not in (Status.DEAD, Status.FAILED):
        raise Conflict(f"This job is {job.get_status_display().lower()}: there is nothing to retry.")
    before = {"status": job.status, "attempts": job.attempts, "error": job.error}
    job.status, job.attempts, job.next_attempt_at, job.finished_at = Status.QUEUED, 0, clock.now(), None
    job.save(update_fields=["status", "attempts", "next_attempt_at", "finished_at"])
    audit_record(
        by=by, action="lifecycle.retry", target=job, agent=job.agent, before=before, after={"status": job.status}
    )
    job_notify(job.pk)
    return job


def dream_queue() -> int:
    """Queue the jobs of today's dream cycle (daily maintenance) of every agent; returns how many are new."""
    today = clock.now().date().isoformat()
    made = 0
    for agent in Agent.objects.order_by("pk").iterator():
        with transaction.atomic():
            for name in DREAM:
                key = f"{name}:{agent.pk}:{today}"
                job = job_queue(name, agent=agent, persona=Persona.SUBCONSCIOUS, subject=agent, key=key)
                made += job is not None
    return made


def judgements_retry() -> int:
    """Queue the oldest work of each persona that waits for a judge, if one is configured, has tokens left, and has no
    other work; returns how many jobs. When such a job is done, it requests the next one (`backlog_continue`)."""
    if configured_judge() is None:
        return 0
    try:
        budget_check()
    except JudgeFailed:
        return 0
    return sum(_oldest_queue(persona) for persona in Persona.values if not judged_work_open(persona))


def _oldest_queue(persona: str) -> bool:
    """Queue the oldest job of an episode or a fact that is to be run again, else that of the oldest review; last come
    episodes about which the judge was asked MAX_TRIES_FIRST times, so that no review waits for them."""
    jobs = Job.objects.filter(TO_RERUN, persona=persona, handler__in=["episode_close", "fact_check"])
    jobs = jobs.order_by("finished_at")
    if job := jobs.filter(Q(result__tries__isnull=True) | Q(result__tries__lt=MAX_TRIES_FIRST)).first():
        return job_rerun(job)
    keys = judgeable(MemoryReview.objects.filter(persona=persona), queued=False)
    review = MemoryReview.objects.select_related("agent").filter(pk__in=keys[:1]).first()
    if review is None:
        job = jobs.first()
        return job is not None and job_rerun(job)
    with transaction.atomic():
        if job_queue("fact_judge", agent=review.agent, persona=persona, subject=review) is not None:
            return True
    return job_rerun(Job.objects.get(key=f"fact_judge:{review.pk}"))


@transaction.atomic
def job_rerun(job: Job) -> bool:
    """Queue a done job again, because there is something new to find; False when it is not done."""
    now = clock.now()
    done = Job.objects.filter(pk=job.pk, status__in=[Status.DONE, Status.DEAD])
    if not done.update(status=Status.QUEUED, attempts=0, queued_at=now, next_attempt_at=now, error=""):
        return False
    job_notify(job.pk)
    return True


def _claim(job_id: int) -> Job | None:
    now = clock.now()
    free = Q(status__in=[Status.QUEUED, Status.FAILED]) | Q(status=Status.RUNNING, next_attempt_at__lte=now)
    mine = Job.objects.filter(free, pk=job_id, attempts__lt=JOB_LEASE.max_attempts).update(
        status=Status.RUNNING, attempts=F("attempts") + 1, started_at=now, next_attempt_at=now + JOB_LEASE.lease
    )
    return Job.objects.select_related("agent").get(pk=job_id) if mine else None


def _renew(job: Job) -> None:
    _held(job).update(next_attempt_at=clock.now() + JOB_LEASE.lease)


def _held(job: Job) -> QuerySet[Job]:
    return Job.objects.filter(pk=job.pk, status=Status.RUNNING, attempts=job.attempts, started_at=job.started_at)


def _finish(job: Job, status: Status, began: float, error: str = "") -> None:
    job.status, job.finished_at, job.error = status, clock.now(), error
    job.duration_ms = round((time.monotonic() - began) * 1000)
    job.save(update_fields=["status", "finished_at", "error", "duration_ms", "tokens", "result"])


def _fail(job: Job, error: Exception, began: float) -> None:
    # The words of an error that nobody foresaw may quote a memory; the log has them.
    foreseen = isinstance(error, DomainError | EmbeddingFailed | JudgeFailed)
    said = str(error)[:1000] if foreseen else f"Unexpected {type(error).__name__}; see the log for details."
    dead = job.attempts >= JOB_LEASE.max_attempts
    _release(job, Status.DEAD if dead else Status.FAILED, clock.now() + JOB_LEASE.backoff(job.attempts), said, began)


def _postpone(job: Job, later: Defer, began: float) -> None:
    """Postpone a job whose model is unavailable. This counts as no attempt."""
    at = later.retry_at or clock.now() + JOB_LEASE.backoff(max(job.attempts, 3))
    _release(job, Status.FAILED, at, str(later)[:1000], began, attempts=job.attempts - 1)


def _release(job: Job, status: Status, at: datetime, error: str, began: float, attempts: int | None = None) -> None:
    # After an error of the database the connection may be gone, and a new one may do.
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()
    held = _held(job)
    job.status, job.error, job.next_attempt_at, job.finished_at = status, error, at, clock.now()
    held.update(
        status=status,
        error=error,
        next_attempt_at=at,
        finished_at=job.finished_at,
        attempts=job.attempts if attempts is None else attempts,
        duration_ms=round((time.monotonic() - began) * 1000),
        tokens=job.tokens,
    )
