"""Scheduled work on jobs, and the control of schedules by people: pause, resume, run now."""

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
from memory.judge import JudgeFailed, configured_judge
from memory.judge.budget import budget_check
from memory.lifecycle.handlers import DREAM
from memory.lifecycle.runner import CHANGE, job_rerun, purge_done_jobs
from memory.models import Job, MemoryReview
from memory.transfer.export_runs import exports_expire
from memory.transfer.import_runs import runs_expire
from nousweb.lib import clock
from nousweb.lib.errors import Conflict

MAX_JUDGED_PER_PERSONA = 100
"""Maximum number of reviews, and of episodes, that are queued for the judge at once, per persona."""
PAUSED = 0
FOREVER = -1

Row = TypeVar("Row", MemoryReview, Job)


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
    """Queue reviews and episodes that wait for a judge, if one is configured and has tokens left; returns how many."""
    if configured_judge() is None:
        return 0
    try:
        budget_check()
    except JudgeFailed:
        return 0
    queued = 0
    unjudged = MemoryReview.objects.filter(
        status__in=MemoryReview.OPEN,
        verdict={},
        old__isnull=False,
        new__isnull=False,
    )
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


def purge_finished_jobs() -> int:
    """Delete old finished jobs, and files of old imports and exports; returns how many."""
    return purge_done_jobs() + runs_expire() + exports_expire()


def _by_persona(rows: QuerySet[Row]) -> list[Row]:
    """The first MAX_JUDGED_PER_PERSONA rows of each persona, so that one persona does not delay the other."""
    return [row for persona in Persona.values for row in rows.filter(persona=persona)[:MAX_JUDGED_PER_PERSONA]]


@transaction.atomic
def schedule_pause(*, schedule: Schedule, by: Principal) -> Schedule:
    """Pause a schedule until it is resumed. Raises Conflict if it is paused already, NotAllowed."""
    return _repeat(schedule, by, PAUSED, "schedule.pause", "paused")


@transaction.atomic
def schedule_resume(*, schedule: Schedule, by: Principal) -> Schedule:
    """Resume a paused schedule. Raises Conflict if it is not paused, NotAllowed."""
    return _repeat(schedule, by, FOREVER, "schedule.resume", "running")


@transaction.atomic
def schedule_run(*, schedule: Schedule, by: Principal) -> None:
    """Run the task of a schedule once now, in addition to its own times."""
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
        # The worker uses the real time, not `nousweb.lib.clock`.
        schedule.next_run = timezone.now()
    schedule.save(update_fields=["repeats", "next_run"])
    audit_record(by=by, action=action, target=schedule, agent=None, after={"state": state}, label=schedule.name)
    return schedule
