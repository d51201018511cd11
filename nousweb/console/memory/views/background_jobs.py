"""The page of background work: queue, jobs, failures, schedules, and the judge's spending."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import Case, Count, IntegerField, QuerySet, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django_q.models import Schedule

from identity.models import Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.jobs import CHANGE, messages_waiting
from memory.lifecycle.job_words import handler_label, result_text
from memory.lifecycle.judge_backlog import backlog_progress
from memory.lifecycle.runner import job_retry
from memory.models import Job, JudgeCall, Screening
from memory.selectors import visible_reviews
from memory.selectors.filters import JobFilter
from memory.services.quarantine.screening import screening_due, screening_request
from nousweb.console.common import POST, act, page, page_of, query_without
from nousweb.lib.errors import DomainError, existing
from nousweb.lib.permission_holder import for_visible_agents
from nousweb.queue import PAUSED, schedule_pause, schedule_run

SCHEDULES = "schedules"
ORDER = (Job.Status.DEAD, Job.Status.FAILED, Job.Status.RUNNING, Job.Status.QUEUED)
URGENT = Case(*(When(status=status, then=place) for place, status in enumerate(ORDER)), output_field=IntegerField())
"""Failed jobs before those that run, and these before those that wait."""
RUN_BADGES = {"dead": "removed", "failed": "warn", "done": "ok", "running": "accent"}
SCHEDULE_ACTIONS: Mapping[str, tuple[Callable[..., Any], str]] = {
    "pause": (schedule_pause, "paused until it is resumed."),
    "resume": (partial(schedule_pause, pause=False), "resumed."),
    "run": (schedule_run, "started."),
}
DAYS = 14
LATEST = 8
"""Done jobs that are shown where none is open."""


@page("memory.view_job")
def lifecycle(request: HttpRequest, by: Principal) -> HttpResponse:
    """The open jobs, failures first, or without them the latest done ones, with the screening and the judge's spending;
    all done ones; or the schedules."""
    status, tab = request.GET.get("status", ""), request.GET.get("tab", "")
    status = status if status in Job.Status.values else ""
    runs = _runs_of(by).select_related("agent")
    counts = dict.fromkeys(Job.Status.values, 0)
    counts |= dict(runs.order_by().values_list("status").annotate(Count("pk")))
    schedules = Schedule.objects.order_by("name")
    shown = JobFilter.narrow(runs, status=status) if status else runs.exclude(status=Job.Status.DONE).order_by(URGENT)
    spend = _spend(by)
    context: dict[str, Any] = {
        "tabs": _tabs(counts, schedules.count(), status, tab),
        "is_done": status == Job.Status.DONE,
        "shows_state": tab != SCHEDULES and status != Job.Status.DONE,
        "latest": None,
        "query": query_without(request),
        # All agents and personas share the queue, so its length tells of each of them.
        "messages_queued": _messages() if by.may(VIEW_SUBCONSCIOUS) and by.agents is None else "",
        "spend": spend,
        "today": spend[-1][1],
        "most": max(tokens for _, tokens in spend),
        "budget": settings.JUDGE_DAILY_TOKENS if settings.JUDGE != "none" else 0,
        "backlog": backlog_progress(visible_reviews(by)),
        "may_change": by.may(CHANGE),
        "screening": _screening(by),
    }
    if tab == SCHEDULES:
        context["schedules"] = [(each, each.repeats == PAUSED, _period(each.minutes)) for each in schedules]
    else:
        found: Any = page_of(request, shown)
        if status or sum(counts.values()) > counts[Job.Status.DONE]:
            context["page"] = found
        elif counts[Job.Status.DONE]:
            found = JobFilter.narrow(runs, status=Job.Status.DONE)[:LATEST]
            context |= {"is_done": True, "latest": f"All {counts[Job.Status.DONE]:,}"}
        context["runs"] = [
            (run, RUN_BADGES.get(run.status, "neutral"), handler_label(run.handler), result_text(run.result))
            for run in found
        ]
        context["schedules"] = None
    return render(request, "memory/background_jobs.html", context)


def _tabs(counts: Mapping[str, int], schedules: int, status: str, tab: str) -> list[dict[str, Any]]:
    """The parts of the page; of the states of open jobs those that a job has, or that is asked for."""
    states = {value: label for value, label in Job.Status.choices if value == status or counts[value]}
    done, label = Job.Status.DONE, states.pop(Job.Status.DONE, Job.Status.DONE.label)
    still_open = sum(counts.values()) - counts[done]
    return [
        {"label": "Open", "url": "?", "active": not status and tab != SCHEDULES, "count": still_open},
        *(
            {"label": words, "url": f"?status={value}", "active": value == status, "count": counts[value]}
            for value, words in (*states.items(), (done, label))
        ),
        {"label": "Schedules", "url": f"?tab={SCHEDULES}", "active": tab == SCHEDULES, "count": schedules},
    ]


@page(methods=POST)
def lifecycle_screening(request: HttpRequest, by: Principal) -> HttpResponse:
    """Request that the screening rules are applied to all stored texts."""
    done = "Screening started. This page shows its progress."
    return act(request, lambda: screening_request(by=by), f"{reverse('lifecycle')}#screening", done)


@page(CHANGE, methods=POST)
def lifecycle_retry(request: HttpRequest, by: Principal, pk: int) -> HttpResponse:
    """Try a run that was given up again."""
    run = get_object_or_404(_runs_of(by).select_related("agent"), pk=pk)
    back = f"{reverse('lifecycle')}?{query_without(request)}"
    return act(request, lambda: job_retry(job=run, by=by), back, "The job was requeued.", refusals=(DomainError,))


@page(CHANGE, methods=POST)
def lifecycle_schedule(request: HttpRequest, by: Principal, pk: int) -> HttpResponse:
    """Pause, resume or run one schedule."""
    schedule = get_object_or_404(Schedule, pk=pk)
    service, done = existing(SCHEDULE_ACTIONS.get(request.POST.get("action", "")), "Unknown action.")
    return act(
        request,
        lambda: service(schedule=schedule, by=by),
        f"{reverse('lifecycle')}?tab={SCHEDULES}",
        f"{schedule.name}: {done}",
        refusals=(DomainError,),
    )


def _screening(by: Principal) -> dict[str, Any]:
    """The latest screening of stored texts, and the actions on it that `by` may do. Counts are of all agents."""
    run = Screening.objects.first()
    is_open = run is not None and run.status in Screening.OPEN
    return {
        "run": run,
        "due": "Stored memories have not been screened with the current rules."
        if not is_open and screening_due()
        else "",
        "sees_counts": by.agents is None and by.may(VIEW_SUBCONSCIOUS),
        "may_start": by.may(CHANGE) and by.agents is None and not is_open,
    }


def _runs_of(by: Principal) -> QuerySet[Job]:
    """The runs that `by` may know of."""
    runs = for_visible_agents(Job.objects.all(), by)
    return runs if by.may(VIEW_SUBCONSCIOUS) else runs.exclude(persona=Persona.SUBCONSCIOUS)


def _period(minutes: int | None) -> str:
    for unit, length in (("d", 24 * 60), ("h", 60)):
        if minutes and minutes % length == 0:
            return f"{minutes // length} {unit}"
    return f"{minutes} min"


def _messages() -> str:
    """The number of messages that wait for a worker, in words; "" for none."""
    try:
        number = messages_waiting()[0]
    except Exception:  # A Redis that cannot be reached must not take the page with it.
        return "an unknown number of messages"
    return f"{number:,} message{'' if number == 1 else 's'}" if number else ""


def _spend(by: Principal) -> list[tuple[str, int]]:
    """The names of the last days, the earliest first, with the tokens of the judge for agents that `by` may see."""
    today = timezone.now().astimezone(UTC).date()
    first = today - timedelta(days=DAYS - 1)
    since = datetime(first.year, first.month, first.day, tzinfo=UTC)
    calls: Any = for_visible_agents(JudgeCall.objects.filter(created_at__gte=since), by)
    if not by.may(VIEW_SUBCONSCIOUS):
        calls = calls.exclude(persona=Persona.SUBCONSCIOUS)
    spent: dict[date, int] = calls.spent_by_day()
    days = [first + timedelta(days=place) for place in range(DAYS)]
    return [(f"{day.day} {day:%b}", spent.get(day, 0)) for day in days]
