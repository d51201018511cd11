"""Scheduled work on jobs, and the control of schedules by people: pause, resume, run now."""

from django.db import transaction
from django.db.models import Q
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
from memory.lifecycle.judge_backlog import TO_RERUN, judgeable, judged_work_open
from memory.lifecycle.runner import CHANGE, job_rerun, purge_done_jobs
from memory.models import Job, MemoryReview
from memory.transfer.export_runs import exports_expire
from memory.transfer.import_runs import runs_expire
from nousweb.lib import clock
from nousweb.lib.errors import Conflict

MAX_TRIES_FIRST = 3
PAUSED = 0
FOREVER = -1


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


def purge_finished_jobs() -> int:
    """Delete old finished jobs, and files of old imports and exports; returns how many."""
    return purge_done_jobs() + runs_expire() + exports_expire()


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
