"""Check expectations in the background, and find the change that led from one state to another.

Between two checks there may be many changes. If the expected memory itself was retired, the change that retired it is
the cause. Otherwise the past is reconstructed: the expectation is checked as of the changes in between, halving them
each time, until one is left that separates the two states. If the past cannot be reconstructed, no change is named, and
only their number is given.
"""

import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Max, OuterRef

from context.expectations.check_runner import Check, check_as_of, expectations_check
from context.expectations.evaluation import Outcome, State
from context.expectations.policy import (
    CAUSE_SECONDS,
    RECHECK_AFTER,
    RECHECK_ERRORS_AFTER,
    REST_FACTOR,
    VECTORS_RETRY,
    VECTORS_WAIT,
)
from context.history.behaviour_bisect import (
    IGNORED_KINDS,
    NOT_REBUILT,
    SAME_MOMENT,
    TRANSACTION,
    Event,
    event_with_author,
    events_after,
    is_unknown,
)
from context.models import ContextProfileVersion, Expectation, ExpectationResult, ExpectationWatch
from identity.models import Agent, Change, ChangeStream
from identity.services.agent_lock import agent_transaction
from identity.services.change_feed import feed_change_draft, feed_changes_record, stream_publish
from memory.jobs import job_queue
from memory.lifecycle.handler import Defer, Handler
from memory.lifecycle.runner import job_rerun
from memory.models import IndexStatus, Job, SearchItem
from memory.persona import VIEWS, PersonaMemory
from nousweb.lib import clock

RETIREMENTS: Mapping[str, frozenset[str]] = {
    "fact": frozenset({"fact.superseded", "fact.merged", "fact.invalidated", "fact.erased"}),
    "document": frozenset({"document.superseded", "document.retired"}),
    "event": frozenset({"event.erased"}),
}
"""Kinds of change that take a memory out of use, of types that do not just update or retire it."""
RETIRED_CODES = frozenset({"superseded", "retired", "invalidated", "gone"})
"""Failures that the change of the demanded memory itself explains."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of the change feed when a check began: `positions` by persona, and the moment."""

    positions: Mapping[str, int]
    at: datetime


@dataclass(frozen=True, slots=True)
class Cause:
    """The change that is named, or None with the reason in words; `among` so many changes it was looked for.

    `is_pending`: nobody has looked yet, since time ran out.
    """

    event: Event | None
    among: int = 0
    note: str = ""
    is_pending: bool = False

    def as_json(self) -> dict[str, Any]:
        """As it is kept with a result."""
        told: dict[str, Any] = {"among": self.among}
        if self.note:
            told["note"] = self.note
        if self.is_pending:
            told["pending"] = True
        if self.event is not None:
            event = self.event
            told |= {
                "change": event.key,
                "kind": event.kind,
                "object_type": event.object_type,
                "object_id": event.object_id,
                "at": event.at.isoformat(),
                "by": event.author_name,
                "by_kind": event.author_kind,
            }
        return told


BY_TIME = "No change of this agent led to it: time has passed (a fact began or ended), or the product was changed."
NOT_LOOKED_FOR = Cause(None, 0, "Time ran out before the change was found; the next check looks for it.", True)


def mark_now(view: PersonaMemory) -> Mark:
    """The current mark for a persona. It numbers the persona's own stream up to now, but not a stream that others read
    too."""
    moment = clock.now()
    stream_publish(view.agent.pk, view.persona)
    rows = ChangeStream.objects.filter(agent=view.agent, persona__in=view.personas)
    held = dict(rows.values_list("persona", "last"))
    return Mark({persona: held.get(persona, 0) for persona in view.personas}, moment)


class CauseFinder:
    """Looks for causes among the changes of one agent and persona, each span of changes read once. After `seconds` it
    looks no further."""

    def __init__(self, view: PersonaMemory, seconds: float) -> None:
        self.view = view
        self._end = time.monotonic() + seconds
        self._spans: dict[tuple[tuple[str, int], ...], list[Event]] = {}

    def find(self, expectation: Expectation, outcome: Outcome, since: Mark) -> Cause:
        """The change since a mark that led to this outcome, from one that was otherwise."""
        events = self._events(since)
        if not events:
            return Cause(None, 0, BY_TIME)
        if (direct := _retirement(expectation, outcome, events)) is not None:
            return self._named(events, direct)
        if time.monotonic() >= self._end:
            return NOT_LOOKED_FOR
        is_now = expectation.request.get("as_of") is None
        if is_now and (found := self._bisected(expectation, outcome, since, events)) is not None:
            return found
        if (left := _only_possible(expectation, outcome, events)) is not None:
            return self._named(events, left)
        session = expectation.request.get("session_id")
        why = dict.fromkeys(NOT_REBUILT[event.kind] for event in events if is_unknown(event, session))
        note = (
            f"One of {len(events):,} changes in between; the past cannot be reconstructed precisely enough to name it"
        )
        return Cause(None, len(events), f"{note}, since {' and '.join(why)}." if why else f"{note}.")

    def _events(self, since: Mark) -> list[Event]:
        """The changes after a mark, in their order."""
        key = (*sorted(since.positions.items()), ("", int(since.at.timestamp() * 1000)))
        if key not in self._spans:
            self._spans[key] = events_after(self.view, since.positions, since.at)
        return self._spans[key]

    def _bisected(
        self, expectation: Expectation, outcome: Outcome, since: Mark, events: Sequence[Event]
    ) -> Cause | None:
        """The first of the events as of which the outcome is the present one; None if the past cannot be
        reconstructed."""
        now = clock.now()
        moments = [min(event.at, now) for event in events]

        unknown = False

        def is_so(moment: datetime) -> bool:
            nonlocal unknown
            # A check of the past that could not run is no evidence of a different state, and ends the search.
            state = State.ERROR if unknown else check_as_of(self.view, expectation, moment).state
            unknown = state == State.ERROR
            return state == outcome.state

        # A change may have been written before the mark and committed after it.
        begin = since.at if since.at < moments[0] else moments[0] - SAME_MOMENT
        if is_so(begin) or unknown or not is_so(now):
            return None
        place = bisect_left(moments, True, key=is_so)
        if unknown:
            return None
        if place == len(moments):
            return Cause(None, len(events), BY_TIME)
        before = moments[place] - TRANSACTION
        if before > (moments[place - 1] if place else since.at) and is_so(before):
            return Cause(None, len(events), BY_TIME)
        return self._named(events, _nearest(expectation, outcome, events, place))

    def _named(self, events: Sequence[Event], event: Event) -> Cause:
        return Cause(event_with_author(self.view.agent, event), len(events))


def _retirement(expectation: Expectation, outcome: Outcome, events: Sequence[Event]) -> Event | None:
    """The change that retired the expected memory, if that is why it is missing."""
    if outcome.code not in RETIRED_CODES:
        return None
    name = expectation.item_type
    kinds = RETIREMENTS.get(name, {f"{name}.updated", f"{name}.retired"})
    own = [
        event
        for event in events
        if event.object_type == expectation.item_type and event.object_id == expectation.item_id and event.kind in kinds
    ]
    return own[-1] if own else None


def _nearest(expectation: Expectation, outcome: Outcome, events: Sequence[Event], place: int) -> Event:
    """Of several events at one moment, such as a learned fact and the one it supersedes, the event about a memory that
    the outcome names."""
    named = {*outcome.about, (expectation.item_type, expectation.item_id)}
    moment = events[place].at
    together = [event for event in events if abs(event.at - moment) <= SAME_MOMENT]
    about = [event for event in together if (event.object_type, event.object_id) in named]
    return about[0] if about and events[place] not in about else events[place]


def _only_possible(expectation: Expectation, outcome: Outcome, events: Sequence[Event]) -> Event | None:
    """The only possible change: the only one at all, the only one about a memory that the outcome names, or the only
    one that a context of the past cannot show."""
    if len(events) == 1:
        return events[0]
    named = {*outcome.about, (expectation.item_type, expectation.item_id)}
    about = [event for event in events if (event.object_type, event.object_id) in named]
    if len(about) == 1:
        return about[0]
    unknown = [event for event in events if is_unknown(event, expectation.request.get("session_id"))]
    return unknown[0] if len(unknown) == 1 else None


@dataclass(frozen=True, slots=True)
class CheckRun:
    """The result of one round of checks before it is stored: `causes` by expectation."""

    checks: Sequence[Check]
    causes: Mapping[UUID, Mapping[str, Any]]
    mark: Mark
    seconds: float


def expectations_run(view: PersonaMemory, expectations: Sequence[Expectation]) -> CheckRun:
    """Check the expectations of one persona, and find the causes of those that changed. Writes nothing. Do not call it
    in a transaction that others wait for."""
    began = time.monotonic()
    mark = mark_now(view)
    checks = list(expectations_check(view, expectations))
    finder = CauseFinder(view, CAUSE_SECONDS)
    rows = ExpectationResult.objects.filter(agent=view.agent, expectation__in=expectations, is_current=True)
    held = {row.expectation_id: row for row in rows}
    causes = {}
    for check in checks:
        result = held.get(check.expectation.pk)
        # Else nothing is to be found out about what led to the state.
        if result is not None and (result.state != check.outcome.state or result.cause.get("pending")):
            causes[check.expectation.pk] = _cause(finder, check)
    return CheckRun(checks, causes, mark, time.monotonic() - began)


def _cause(finder: CauseFinder, check: Check) -> Mapping[str, Any]:
    """The cause of a change from the other state to the present one; {} if the expectation never had the other state.

    Checks in between that could not run do not count.
    """
    one, state = check.expectation, check.outcome.state
    if state == State.ERROR:
        return {}
    results = one.results.filter(revision=one.revision).exclude(state=State.ERROR).order_by("-since", "-id")
    last = results.first()
    if last is not None and last.state == state and not last.cause.get("pending"):
        return last.cause
    before = results.exclude(state=state).first()
    if before is None:
        return {}
    return finder.find(one, check.outcome, Mark(before.positions, before.checked_at)).as_json()


@agent_transaction()
def results_record(*, agent: Agent, run: CheckRun) -> None:
    """Store the results of a round. Expectations that were edited or deleted meanwhile are skipped, and results of a
    later round stay."""
    ids = [check.expectation.pk for check in run.checks]
    rows = Expectation.objects.select_for_update().filter(agent=agent, pk__in=ids).order_by("pk")
    revisions = dict(rows.values_list("pk", "revision"))
    current = {
        row.expectation_id: row
        for row in ExpectationResult.objects.filter(agent=agent, expectation__in=ids, is_current=True)
    }
    fresh, same, drafts = [], [], []
    ended = []
    for check in run.checks:
        one, outcome = check.expectation, check.outcome
        if revisions.get(one.pk) != one.revision:
            continue
        held = current.get(one.pk)
        if held is not None and held.revision == one.revision and held.checked_at > run.mark.at:
            continue
        cause = run.causes.get(one.pk)
        if held is not None and held.revision == one.revision and held.state == outcome.state:
            held.code, held.detail, held.checked_at = outcome.code, outcome.detail, run.mark.at
            held.positions, held.checks = dict(run.mark.positions), held.checks + 1
            if cause is not None:
                held.cause = dict(cause)
            same.append(held)
            continue
        if held is not None:
            ended.append(held.pk)
        fresh.append(
            ExpectationResult(
                agent_id=one.agent_id,
                persona=one.persona,
                expectation=one,
                revision=one.revision,
                state=outcome.state,
                code=outcome.code,
                detail=outcome.detail,
                cause=dict(cause or {}),
                positions=dict(run.mark.positions),
                since=run.mark.at,
                checked_at=run.mark.at,
            )
        )
        if held is not None or outcome.state != State.PASSED:
            kind = "expectation.mended" if outcome.passed else "expectation.broken"
            drafts.append(feed_change_draft(kind, agent, one.persona, "expectation", one.pk, {"state": outcome.state}))
    ExpectationResult.objects.filter(agent=agent, pk__in=ended).update(is_current=False)
    ExpectationResult.objects.bulk_create(fresh)
    ExpectationResult.objects.bulk_update(
        same, ["code", "detail", "checked_at", "positions", "checks", "cause"], batch_size=500
    )
    feed_changes_record(drafts)


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
        elif watch.checked_at + timedelta(milliseconds=watch.duration_ms * REST_FACTOR) <= now and (
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
    # References of answers affect prompts only with the usage boost.
    ignored = IGNORED_KINDS - ({"context.answered"} if settings.USAGE_BOOST_PERCENT else set())
    personas = VIEWS[watch.persona].personas
    last = dict(ChangeStream.objects.filter(agent=agent, persona__in=personas).values_list("persona", "last"))
    for persona in personas:
        rows = Change.objects.filter(agent=agent, persona=persona, position__gt=watch.positions.get(persona, 0))
        if rows.exclude(kind__in=ignored).exists():
            return True
    ExpectationWatch.objects.filter(pk=watch.pk, checked_at=watch.checked_at).update(positions=last)
    return False


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
