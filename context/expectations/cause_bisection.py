"""Find the change that led from one state of an expectation to another.

Between two checks there may be many changes. If the expected memory itself was retired, the change that retired it is
the cause. Otherwise the past is reconstructed: the expectation is checked as of the changes in between, halving them
each time, until one is left that separates the two states. If the past cannot be reconstructed, no change is named, and
only their number is given.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from context.expectations.check_outcome import Outcome
from context.expectations.check_runner import check_as_of
from context.history.prompt_events import (
    NOT_REBUILT,
    SAME_MOMENT,
    TRANSACTION,
    Event,
    event_with_author,
    events_after,
)
from context.models import Expectation, ExpectationResult
from identity.models.changes import ChangeStream
from identity.services.change_feed import stream_publish
from memory.persona import PersonaMemory
from nousweb.lib import clock

RETIREMENTS: Mapping[str, frozenset[str]] = {
    "fact": frozenset({"fact.superseded", "fact.merged", "fact.invalidated", "fact.erased"}),
    "document": frozenset({"document.superseded", "document.retired"}),
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
        if expectation.request.get("as_of") is None:
            found = self._bisected(expectation, outcome, since, events)
            if found is not None:
                return found
        if (left := _only_possible(expectation, outcome, events)) is not None:
            return self._named(events, left)
        why = dict.fromkeys(NOT_REBUILT[event.kind] for event in events if _is_unknown(expectation, event))
        note = (
            f"One of {len(events):,} changes in between; the past cannot be reconstructed precisely enough to name it"
        )
        note += f", since {' and '.join(why)}." if why else "."
        return Cause(None, len(events), note)

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
            state = check_as_of(self.view, expectation, moment).state
            # A check of the past that could not run is no evidence of a different state.
            unknown = unknown or state == ExpectationResult.State.ERROR
            return state == outcome.state

        # A change may have been written before the mark and committed after it.
        begin = since.at if since.at < moments[0] else moments[0] - SAME_MOMENT
        if is_so(begin) or unknown or not is_so(now):
            return None
        low, high = -1, len(moments)
        while high - low > 1:
            middle = (low + high) // 2
            if is_so(moments[middle]):
                high = middle
            else:
                low = middle
            if unknown:
                return None
        if high == len(moments):
            return Cause(None, len(events), BY_TIME)
        before = moments[high] - TRANSACTION
        if before > (moments[high - 1] if high else since.at) and is_so(before):
            return Cause(None, len(events), BY_TIME)
        return self._named(events, _nearest(expectation, outcome, events, high))

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
    unknown = [event for event in events if _is_unknown(expectation, event)]
    return unknown[0] if len(unknown) == 1 else None


def _is_unknown(expectation: Expectation, event: Event) -> bool:
    """Whether an event may have changed the prompt in a way that no context of the past shows."""
    if event.kind == "working.changed":
        return event.object_id == expectation.request.get("session_id")
    return event.kind in NOT_REBUILT
