"""Running what the lifecycle has queued: claimed once, done once, tried again with growing pauses, given up visibly."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from threading import Event, Thread
from typing import Any

import structlog
from django.db import Error, connection, transaction
from django.db.models import F, Q, QuerySet

from identity.principal import Principal
from identity.services.agent_lock import agent_held, agent_transaction
from identity.services.audit import audit_record
from memory.embedding import EmbeddingFailed
from memory.jobs.messages import messages_waiting
from memory.jobs.queue import job_notify
from memory.judge import JudgeFailed
from memory.lifecycle.handler import Defer, Handler
from memory.lifecycle.policy import (
    BACKOFF_INITIAL,
    KEEP_DONE_RUNS,
    LEASE,
    LONGEST_PAUSE,
    LOST_AFTER,
    LOST_IN_BACKLOG,
    MAX_ATTEMPTS,
    RENEW_EVERY,
    SWEEP_BATCH,
)
from memory.models import LifecycleRun
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, DomainError
from nousweb.lib.retrying import transaction_retried

log = structlog.get_logger(__name__)
Status = LifecycleRun.Status
CHANGE = "memory.change_lifecyclerun"
PREPARED_AT_MOST = 3
"""Times that a run is prepared in a row when erasures come in between."""


def lifecycle_run(run_id: int) -> str:
    """Run one queued run; returns its new status, or "not ours" when somebody else has it or has done it.

    1. Claim it, so that of two workers with the same message one goes on.
    2. Prepare outside of every transaction: this is where models are asked. The claim is renewed meanwhile.
    3. Apply the effect and mark the run done in one transaction, if the claim still holds. What was prepared before
       something of the agent was erased may tell of it, and is prepared anew.
    """
    run = _claim(run_id)
    if run is None:
        return "not ours"
    began = time.monotonic()
    try:
        with _renewed(run):
            handler = _handler(run)
            for _ in range(PREPARED_AT_MOST):
                prepared = handler.prepare(run)
                applied = transaction_retried(partial(_apply, run, handler, prepared, began))
                if applied is not None:
                    return run.status if applied else "not ours"
                run.agent.refresh_from_db()
            raise Defer("Something of this agent is being erased again and again.")
    except Defer as later:
        _postpone(run, later, began)
    except Exception as error:  # One handler that fails must not end the worker that runs the others.
        log.exception("lifecycle_run_failed", run=run.pk, handler=run.handler)
        _fail(run, error, began)
    return run.status


def _apply(run: LifecycleRun, handler: Handler, prepared: Any, began: float) -> bool | None:
    """Apply what was prepared and finish the run; None when it has to be prepared anew, False when it is not ours."""
    before = run.result
    try:
        with transaction.atomic(), agent_held(run.agent_id) as erasures:
            if erasures != run.agent.erasures:
                return None
            if not _still_ours(run):
                return False
            run.result = handler.apply(run, prepared)
            _finish(run, Status.DONE, began)
    except Error:
        run.result = before
        raise
    return True


def pause_after(attempts: int) -> timedelta:
    """How long a run waits after its n-th failed attempt: doubling from BACKOFF_INITIAL to LONGEST_PAUSE."""
    return min(BACKOFF_INITIAL * 2 ** min(attempts - 1, 20), LONGEST_PAUSE)


def runs_sweep() -> int:
    """Send the messages of runs that are due and were not taken up; returns how many.

    Covers runs that wait for another attempt, those whose worker was killed, and those whose message was lost. While
    messages wait their turn, a queued run is taken for lost only after long.
    """
    now = clock.now()
    with transaction.atomic():
        # Who is about to finish holds the row's lock, and is left alone.
        due = LifecycleRun.objects.due(now).select_for_update(skip_locked=True).order_by("next_attempt_at", "id")
        gone = due.filter(status=Status.RUNNING, attempts__gte=MAX_ATTEMPTS).values_list("pk", flat=True)
        said = f"Its worker was ended {MAX_ATTEMPTS} times."
        LifecycleRun.objects.filter(pk__in=list(gone)).update(status=Status.DEAD, finished_at=now, error=said)
        patience = LOST_IN_BACKLOG if messages_waiting()[0] else LOST_AFTER
        untaken = Q(status=Status.QUEUED, next_attempt_at__lte=now - patience)
        keys = list(due.filter(~Q(status=Status.QUEUED) | untaken).values_list("pk", flat=True)[:SWEEP_BATCH])
        # Told now: if nobody takes these up, they are told again after a while, and not at every sweep.
        LifecycleRun.objects.filter(pk__in=keys).update(next_attempt_at=now, status=Status.QUEUED)
        for key in keys:
            job_notify(key)
    return len(keys)


def runs_purge() -> int:
    """Delete the rows of runs that were done long ago; returns how many. Those given up stay."""
    old = LifecycleRun.objects.filter(status=Status.DONE, finished_at__lt=clock.now() - KEEP_DONE_RUNS)
    return old.delete()[0]


@agent_transaction(of="run")
def run_retry(*, run: LifecycleRun, by: Principal) -> LifecycleRun:
    """Let a run that was given up, or waits for its next attempt, be tried now from the start.

    Raises NotAllowed, or Conflict for a run that is not one of these.
    """
    by.require(CHANGE, run.agent)
    run = LifecycleRun.objects.select_for_update(of=("self",)).select_related("agent").get(pk=run.pk)
    if run.status not in (Status.DEAD, Status.FAILED):
        raise Conflict(f"This run is {run.get_status_display().lower()}: there is nothing to try again.")
    before = {"status": run.status, "attempts": run.attempts, "error": run.error}
    run.status, run.attempts, run.next_attempt_at, run.finished_at = Status.QUEUED, 0, clock.now(), None
    run.save(update_fields=["status", "attempts", "next_attempt_at", "finished_at"])
    audit_record(
        by=by, action="lifecycle.retry", target=run, agent=run.agent, before=before, after={"status": run.status}
    )
    job_notify(run.pk)
    return run


@transaction.atomic
def run_again(run: LifecycleRun) -> bool:
    """Queue a done run anew, because there is something new to find; False when it is not done."""
    now = clock.now()
    done = LifecycleRun.objects.filter(pk=run.pk, status__in=[Status.DONE, Status.DEAD])
    if not done.update(status=Status.QUEUED, attempts=0, queued_at=now, next_attempt_at=now, error=""):
        return False
    job_notify(run.pk)
    return True


def _claim(run_id: int) -> LifecycleRun | None:
    now = clock.now()
    free = Q(status__in=[Status.QUEUED, Status.FAILED]) | Q(status=Status.RUNNING, next_attempt_at__lte=now)
    mine = LifecycleRun.objects.filter(free, pk=run_id, attempts__lt=MAX_ATTEMPTS).update(
        status=Status.RUNNING, attempts=F("attempts") + 1, started_at=now, next_attempt_at=now + LEASE
    )
    return LifecycleRun.objects.select_related("agent").get(pk=run_id) if mine else None


@contextmanager
def _renewed(run: LifecycleRun) -> Iterator[None]:
    """Renew the claim from time to time, by another thread, while the handler works."""
    done = Event()

    def renew() -> None:
        try:
            while not done.wait(RENEW_EVERY.total_seconds()):
                try:
                    _held(run).update(next_attempt_at=clock.now() + LEASE)
                except Error as error:
                    # The database may be back for the next time; if not, the claim ends, and the effect with it.
                    log.warning("lifecycle_claim_not_renewed", run=run.pk, error=type(error).__name__)
                    connection.close()
        finally:
            connection.close()

    Thread(target=renew, daemon=True, name=f"lifecycle-claim-{run.pk}").start()
    try:
        yield
    finally:
        done.set()


def _held(run: LifecycleRun) -> QuerySet[LifecycleRun]:
    return LifecycleRun.objects.filter(
        pk=run.pk, status=Status.RUNNING, attempts=run.attempts, started_at=run.started_at
    )


def _still_ours(run: LifecycleRun) -> bool:
    """Whether no other worker has taken the run over; locked until the transaction ends."""
    return _held(run).select_for_update().first() is not None


def _handler(run: LifecycleRun) -> Handler:
    # Imported here: handlers call services, which queue runs.
    from memory.lifecycle.handlers import HANDLERS

    return HANDLERS[run.handler]


def _finish(run: LifecycleRun, status: Status, began: float, error: str = "") -> None:
    run.status, run.finished_at, run.error = status, clock.now(), error
    run.duration_ms = round((time.monotonic() - began) * 1000)
    run.save(update_fields=["status", "finished_at", "error", "duration_ms", "tokens", "result"])


def _fail(run: LifecycleRun, error: Exception, began: float) -> None:
    # The words of an error that nobody foresaw may quote a memory; the log has them.
    foreseen = isinstance(error, DomainError | EmbeddingFailed | JudgeFailed)
    said = str(error)[:1000] if foreseen else f"Unexpected {type(error).__name__}; the log tells more."
    dead = run.attempts >= MAX_ATTEMPTS
    _release(run, Status.DEAD if dead else Status.FAILED, clock.now() + pause_after(run.attempts), said, began)


def _postpone(run: LifecycleRun, later: Defer, began: float) -> None:
    """What cannot be asked now is no failure of the run, and counts as no attempt."""
    at = later.retry_at or clock.now() + pause_after(max(run.attempts, 3))
    _release(run, Status.FAILED, at, str(later)[:1000], began, attempts=run.attempts - 1)


def _release(
    run: LifecycleRun, status: Status, at: datetime, error: str, began: float, attempts: int | None = None
) -> None:
    # After an error of the database the connection may be gone, and a new one may do.
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()
    held = _held(run)
    run.status, run.error, run.next_attempt_at, run.finished_at = status, error, at, clock.now()
    held.update(
        status=status,
        error=error,
        next_attempt_at=at,
        finished_at=run.finished_at,
        attempts=run.attempts if attempts is None else attempts,
        duration_ms=round((time.monotonic() - began) * 1000),
        tokens=run.tokens,
    )
