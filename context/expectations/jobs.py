"""Background checks of expectations after changes, at most one at a time for each persona of an agent."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Max, OuterRef

from context.expectations.cause_bisection import CheckRun, expectations_run, mark_now, results_record
from context.expectations.policy import (
    RECHECK_AFTER,
    RECHECK_ERRORS_AFTER,
    REST_FACTOR,
    VECTORS_RETRY,
    VECTORS_WAIT,
)
from context.history.change_events import IGNORED_KINDS
from context.models import ContextProfileVersion, Expectation, ExpectationResult, ExpectationWatch
from identity.models import Agent, Change
from identity.models.changes import ChangeStream
from memory.jobs import job_queue
from memory.lifecycle.handler import Defer, Handler
from memory.lifecycle.runner import job_rerun
from memory.models import IndexStatus, Job, SearchItem
from memory.persona import VIEWS
from nousweb.lib import clock

State = ExpectationResult.State
HANDLER = "expectation_check"
Pair = tuple[int, str]
"""An agent's key and a persona."""


def checks_queue() -> int:
    """Queue a check for each persona of an agent whose prompts may have changed since the last check; returns how many
    are new.

    All changes since the last check are one job, which is not queued twice. After a check the next one waits in
    proportion to its duration.
    """
    pairs = set(Expectation.objects.active().order_by().values_list("agent_id", "persona").distinct())
    if not pairs:
        return 0
    queued = 0
    for (agent_id, persona), watch in _due(pairs):
        agent = Agent(pk=agent_id)
        if watch is not None and not _is_due(watch, agent):
            continue
        with transaction.atomic():
            queued += _queue(Agent.objects.get(pk=agent_id), persona)
    return queued


def _due(pairs: set[Pair]) -> Iterable[tuple[Pair, ExpectationWatch | None]]:
    """Expectations that were not checked yet, or that a change may affect."""
    agents = {agent_id for agent_id, _ in pairs}
    watches = {(watch.agent_id, watch.persona): watch for watch in ExpectationWatch.objects.filter(agent__in=agents)}
    streams = ChangeStream.objects.filter(agent__in=agents).values_list("agent_id", "persona", "last")
    last = {(agent_id, persona): position for agent_id, persona, position in streams}
    profiles = _profiles_now()
    current = ExpectationResult.objects.filter(is_current=True)
    of_it = current.filter(agent=OuterRef("agent"), expectation=OuterRef("pk"))
    waiting = Expectation.objects.active().filter(~Exists(of_it), agent__in=agents)
    unchecked = set(waiting.order_by().values_list("agent_id", "persona").distinct())
    errors = current.filter(state=State.ERROR, expectation__active=True, agent__in=agents)
    broken = set(errors.order_by().values_list("agent_id", "persona").distinct())
    now = clock.now()
    for pair in sorted(pairs):
        watch = watches.get(pair)
        if watch is None or pair in unchecked or (pair in broken and watch.checked_at + RECHECK_ERRORS_AFTER <= now):
            yield pair, None
        elif _rested(watch) <= now and (
            watch.checked_at + RECHECK_AFTER <= now
            or watch.profiles < profiles
            or any(
                last.get((pair[0], persona), 0) > watch.positions.get(persona, 0) for persona in VIEWS[pair[1]].personas
            )
        ):
            yield pair, watch


def _is_due(watch: ExpectationWatch, agent: Agent) -> bool:
    """Whether anything happened that may change a prompt; where nothing did, the watch goes on from there."""
    if watch.checked_at + RECHECK_AFTER <= clock.now() or watch.profiles < _profiles_now():
        return True
    personas = VIEWS[watch.persona].personas
    last = dict(ChangeStream.objects.filter(agent=agent, persona__in=personas).values_list("persona", "last"))
    for persona in personas:
        rows = Change.objects.filter(agent=agent, persona=persona, position__gt=watch.positions.get(persona, 0))
        if rows.exclude(kind__in=ignored_kinds()).exists():
            return True
    ExpectationWatch.objects.filter(pk=watch.pk, checked_at=watch.checked_at).update(positions=last)
    return False


def ignored_kinds() -> frozenset[str]:
    """Kinds of changes that affect no prompt; references of answers count only with the usage boost."""
    return IGNORED_KINDS - {"context.answered"} if settings.USAGE_BOOST_PERCENT else IGNORED_KINDS


def _rested(watch: ExpectationWatch) -> datetime:
    return watch.checked_at + timedelta(milliseconds=watch.duration_ms * REST_FACTOR)


def _profiles_now() -> int:
    return ContextProfileVersion.objects.aggregate(last=Max("pk"))["last"] or 0


def _queue(agent: Agent, persona: str) -> bool:
    key = f"{HANDLER}:{agent.pk}:{persona}"
    if job_queue(HANDLER, agent=agent, persona=persona, subject=agent, key=key) is not None:
        return True
    done = Job.objects.filter(key=key).first()
    return done is not None and job_rerun(done)


def _prepare(job: Job) -> tuple[CheckRun | None, int]:
    view = VIEWS[job.persona](job.agent)
    waiting = SearchItem.objects.filter(agent=job.agent, persona__in=view.personas, status=IndexStatus.PENDING)
    if job.queued_at + VECTORS_WAIT > clock.now() and waiting.exists():
        raise Defer("Some memories have no vector yet.", retry_at=clock.now() + VECTORS_RETRY)
    profiles = _profiles_now()
    rows = list(Expectation.objects.filter(agent=job.agent, persona=job.persona).active())
    return (expectations_run(view, rows) if rows else None), profiles


def _apply(job: Job, prepared: tuple[CheckRun | None, int]) -> dict[str, Any]:
    run, profiles = prepared
    if run is None:
        mark, seconds = mark_now(VIEWS[job.persona](job.agent)), 0.0
    else:
        results_record(agent=job.agent, run=run)
        mark, seconds = run.mark, run.seconds
    ExpectationWatch.objects.update_or_create(
        agent=job.agent,
        persona=job.persona,
        defaults={
            "positions": dict(mark.positions),
            "profiles": profiles,
            "checked_at": clock.now(),
            "duration_ms": round(seconds * 1000),
        },
    )
    return {"checked": len(run.checks) if run else 0}


EXPECTATION_CHECK = Handler(apply=_apply, prepare=_prepare)
