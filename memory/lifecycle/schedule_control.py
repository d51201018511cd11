"""What the clock starts in the lifecycle, and people's hold on it: pause, resume, run now."""

from typing import TypeVar

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django_q.models import Schedule

from identity.models import Agent, Persona
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.jobs.messages import message_send
from memory.jobs.queue import job_queue
from memory.judge import JudgeFailed, judge_in_force
from memory.judge.budget import budget_check
from memory.lifecycle.handlers import DREAM
from memory.lifecycle.runner import CHANGE, done_jobs_purge, job_rerun
from memory.models import Job, MemoryReview
from memory.transfer.export_runs import exports_expire
from memory.transfer.import_runs import runs_expire
from nousweb.lib import clock
from nousweb.lib.errors import Conflict

JUDGED_AT_ONCE = 100
"""Of each persona."""
PAUSED = 0
FOREVER = -1

Row = TypeVar("Row", MemoryReview, Job)


def dream_queue() -> int:
    """Queue today's dream cycle of every agent; what is queued already is left alone. Returns how many are new."""
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
    """Queue what still waits for a judge, if one is in force and has tokens left; returns how many."""
    if judge_in_force() is None:
        return 0
    try:
        budget_check()
    except JudgeFailed:
        return 0
    queued = 0
    unjudged = MemoryReview.objects.pending().filter(verdict={}, old__isnull=False, new__isnull=False)
    unjudged = unjudged.select_related("agent").order_by("created_at")
    for review in _by_persona(unjudged):
        with transaction.atomic():
            job = job_queue("fact_judge", agent=review.agent, persona=review.persona, subject=review)
        if job is None:
            done = Job.objects.filter(key=f"fact_judge:{review.pk}", result__judge="no judge").first()
            queued += done is not None and job_rerun(done)
        else:
            queued += 1
    episodes = Job.objects.filter(handler="episode_close", status=Job.Status.DONE, result__judge="pending")
    for job in _by_persona(episodes.order_by("finished_at")):
        queued += job_rerun(job)
    return queued


def done_work_purge() -> int:
    """Delete rows of jobs that were done long ago, and files of imports and exports; returns how many."""
    return done_jobs_purge() + runs_expire() + exports_expire()


def _by_persona(rows: QuerySet[Row]) -> list[Row]:
    """The first JUDGED_AT_ONCE of each persona, so that many of one do not keep the other waiting."""
    return [row for persona in Persona.values for row in rows.filter(persona=persona)[:JUDGED_AT_ONCE]]


@transaction.atomic
def schedule_pause(*, schedule: Schedule, by: Principal) -> Schedule:
    """Let a schedule rest until it is resumed. Raises Conflict when it rests already, NotAllowed."""
    return _repeat(schedule, by, PAUSED, "schedule.pause", "paused")


@transaction.atomic
def schedule_resume(*, schedule: Schedule, by: Principal) -> Schedule:
    """Let a paused schedule run again, from now on. Raises Conflict when it is not paused, NotAllowed."""
    return _repeat(schedule, by, FOREVER, "schedule.resume", "running")


@transaction.atomic
def schedule_run(*, schedule: Schedule, by: Principal) -> None:
    """Run what a schedule runs now, once, beside its own times."""
    by.require(CHANGE)
    by.require_all_agents()
    message_send(schedule.func)
    audit_record(by=by, action="schedule.run", target=schedule, agent=None, label=schedule.name)


def _repeat(schedule: Schedule, by: Principal, repeats: int, action: str, state: str) -> Schedule:
    by.require(CHANGE)
    by.require_all_agents()
    schedule = Schedule.objects.select_for_update().get(pk=schedule.pk)
    if (schedule.repeats == PAUSED) == (repeats == PAUSED):
        raise Conflict(f"This schedule is already {state}.")
    schedule.repeats = repeats
    if repeats != PAUSED:
        # Its own time of the worker's clock, not of ours.
        schedule.next_run = timezone.now()
    schedule.save(update_fields=["repeats", "next_run"])
    audit_record(by=by, action=action, target=schedule, agent=None, after={"state": state}, label=schedule.name)
    return schedule
