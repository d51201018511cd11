"""Changes that may have changed an agent's prompts, and behaviour bisect: those that did, for one request.

The prompt is reconstructed as of both ends. If they differ, the span is split near its end, further back each time, and
what differs is halved, until each difference lies between two states with the changes of one moment between them: so
the newest comes first. A span whose ends are equal is not examined: differences that appeared and disappeared within it
do not matter. A search can be left after any step, and gone on with from its state.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F, Q, QuerySet

from context.engine.analysis.request import ContextRequest, request_resolve
from context.engine.pipeline import build_record, context_inputs_load
from context.models import ASSEMBLE, ContextProfileVersion, ContextRun
from identity.models import Agent, AuditEvent, Change, ChangeStream, IdentityVersion
from identity.policy.changes import KIND_OF_ACTION
from identity.principal import Principal
from memory.persona import PersonaMemory, persona_memory
from nousweb.lib import Conflict, Invalid, clock

PROFILE_KIND = "profile.updated"
"""A version of a context profile, which is no change of any one agent."""
IGNORED_KINDS = frozenset(
    {
        "context.assembled", "context.answered", "context.outcome", "censor.triggered",
        "expectation.changed", "expectation.broken", "expectation.mended", "log.sealed",
        "proposal.created", "proposal.decided", "proposal.withdrawn", "proposal.expired", "proposal.reopened",
    }
)  # fmt: skip
"""Kinds of changes that change no prompt by themselves: their consequences are changes of their own."""
NOT_REBUILT: Mapping[str, str] = {
    "working.changed": "the session's earlier working memory is not kept",
    "subject.changed": "the names of subjects are known as of today only",
}
"""Kinds of change that a context of the past knows nothing of, and why."""
MAX_CHANGES = 5_000
"""Changes of one span among which one is looked for, the latest."""
SAME_MOMENT = timedelta(milliseconds=200)
"""Changes that lie so close together are of one transaction, as a rule."""
TRANSACTION = timedelta(seconds=5)
"""Maximum time between the moments of a change and of the rows that it wrote, however slow the machine."""
AUDIT_WITHIN = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that may have changed prompts: a change of the feed, or a new version of a profile."""

    kind: str
    at: datetime
    object_type: str
    object_id: str
    key: str = ""
    persona: str = ""
    author_name: str = ""
    author_kind: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


def is_unknown(event: Event, session_id: str | None) -> bool:
    """Whether an event may have changed a prompt of this session in a way that no context of the past shows."""
    return event.kind in NOT_REBUILT and (event.kind != "working.changed" or event.object_id == session_id)


def events_after(view: PersonaMemory, positions: Mapping[str, int], at: datetime) -> list[Event]:
    """The changes after these positions of the feed by persona, and the profiles since `at`, in the order of time."""
    after = Q()
    for persona in view.personas:
        after |= Q(persona=persona) & (Q(position__gt=positions.get(persona, 0)) | Q(position__isnull=True))
    return _events(view, Change.objects.filter(after), ContextProfileVersion.objects.filter(created_at__gt=at))


def events_between(view: PersonaMemory, since: datetime, until: datetime) -> list[Event]:
    """The events after `since`, up to and including `until`, in the order of time."""
    changes = Change.objects.filter(persona__in=view.personas, at__gt=since, at__lte=until)
    return _events(view, changes, ContextProfileVersion.objects.filter(created_at__gt=since, created_at__lte=until))


def _events(view: PersonaMemory, changes: QuerySet[Change], versions: QuerySet[ContextProfileVersion]) -> list[Event]:
    rows = changes.filter(agent=view.agent).exclude(kind__in=IGNORED_KINDS)
    latest = rows.order_by(F("position").desc(nulls_first=True), "-id")[:MAX_CHANGES]
    found = [
        Event(row.kind, row.at, row.object_type, row.object_id, str(row.key), row.persona, details=row.details)
        for row in sorted(latest, key=lambda row: (row.at, row.pk))
    ]
    found += [
        Event(
            PROFILE_KIND,
            version.created_at,
            "contextprofile",
            version.profile.slug,
            author_name=version.author_name,
            author_kind=version.author_kind,
        )
        for version in versions.select_related("profile")
    ]
    return sorted(found, key=lambda event: event.at)


def event_with_author(agent: Agent, event: Event) -> Event:
    """The event with its author from the audit trail."""
    name, kind = event.author_name, event.author_kind
    if not name and event.object_type == "identityversion":
        version = IdentityVersion.objects.filter(agent=agent, pk=event.object_id).first()
        name, kind = (version.author_name, version.author_kind) if version else ("", "")
    if not name:
        span = (event.at - AUDIT_WITHIN, event.at + AUDIT_WITHIN)
        actions = [action for action, kind in KIND_OF_ACTION.items() if kind == event.kind]
        trail = AuditEvent.objects.filter(
            Q(object_id=event.object_id) | Q(action__in=actions), agent=agent, at__range=span
        )
        rows = sorted(trail[:200], key=lambda row: (row.object_id != event.object_id, abs(row.at - event.at)))
        name, kind = (rows[0].author_name, rows[0].author_kind) if rows else ("", "")
    return replace(event, author_name=name[:200], author_kind=kind)


def event_groups(events: Sequence[Event]) -> list[list[Event]]:
    """Events in the order of time, those of one moment together."""
    groups: list[list[Event]] = []
    for event in events:
        if groups and event.at - groups[-1][-1].at <= SAME_MOMENT:
            groups[-1].append(event)
        else:
            groups.append([event])
    return groups


Key = tuple[str, str]
"""Type and id of an item of a prompt."""
MAX_PROMPTS = 80
"""Prompts that one bisect rebuilds at most."""
MAX_SECONDS = 12.0
"""After so long a bisect looks no further, and says which spans are left."""
NAMED_EVENTS = 5
"""Maximum number of changes of one moment that are named."""
AFTER_COMMIT = timedelta(milliseconds=20)
"""A change's rows are visible at most this long after its own moment."""


@dataclass(frozen=True, slots=True)
class ItemDifference:
    """One item of the prompt that came (no text before), went (no text after) or reads otherwise."""

    type: str
    id: str
    section: str
    before: str
    after: str

    @property
    def change(self) -> str:
        """added, removed or text."""
        return "added" if not self.before else "text" if self.after else "removed"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two moments, and the changes that caused it.

    `events` are those about the items that differ, else the first of the moment; none if only time passed. `among`
    counts the changes of the span: more than those of one moment if time ran out (`is_narrowed` is false).
    """

    since: datetime
    until: datetime
    events: Sequence[Event]
    among: int
    items: Sequence[ItemDifference]
    is_narrowed: bool = True


@dataclass(frozen=True, slots=True)
class BisectStep:
    """A span that was tried: whether the prompt differs between its ends, and the differences, if they are certain."""

    since: datetime
    until: datetime
    changes: int
    differs: bool
    differences: Sequence[Difference] = ()


@dataclass(frozen=True, slots=True)
class BisectProgress:
    """Some steps of a search. `state` goes on with it; None at its end, with the result `bisect`."""

    steps: Sequence[BisectStep]
    known_since: datetime
    state: dict[str, Any] | None
    bisect: "BehaviourBisect | None"


@dataclass(frozen=True, slots=True)
class BehaviourBisect:
    """All differences between two moments in the order of time.

    `changes` is the number of changes in between, `prompts` the number of reconstructions. Changes from before
    `known_since` are past their retention. `unknown` states what a context of the past cannot reconstruct, `failed` why
    a prompt could not be reconstructed.
    """

    since: datetime
    until: datetime
    known_since: datetime
    changes: int
    prompts: int
    differences: Sequence[Difference]
    items: Sequence[ItemDifference]
    unknown: Sequence[str] = ()
    failed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _State:
    """A prompt of the past: its items by type and id, with section and text."""

    items: Mapping[Key, tuple[str, str]]
    failed: tuple[str, ...] = field(default=(), compare=False)


def context_bisect(*, run: ContextRun, by: Principal, since: datetime, until: datetime) -> BehaviourBisect:
    """Find the changes between two moments that changed the prompt of a logged request.

    The persona is that of the run, and people need the permission to see it. Raises Invalid, NotAllowed.
    """
    return behaviour_bisect(_view(run, by), ContextRequest.of_json(run.request), since=since, until=until)


def context_bisect_steps(
    *, run: ContextRun, by: Principal, since: datetime, until: datetime, state: Mapping[str, Any] | None, seconds: float
) -> BisectProgress:
    """The same search for about `seconds`, one step at least, from its beginning or from a `state` of an earlier call.

    Raises Invalid, NotAllowed, and Conflict if the changes are others than they were.
    """
    search = _Bisect(_view(run, by), ContextRequest.of_json(run.request), since, until, state)
    ends, steps = time.monotonic() + seconds, []
    for step in search.steps():
        steps.append(step)
        if search.spans and time.monotonic() >= ends:
            return BisectProgress(steps, search.known_since, search.state(), None)
    return BisectProgress(steps, search.known_since, None, search.result([]))


def _view(run: ContextRun, by: Principal) -> PersonaMemory:
    by.require("context.view_contextrun", run.agent)
    by.require(ASSEMBLE, run.agent)
    return persona_memory(run.agent, by, run.persona)


def behaviour_bisect(
    view: PersonaMemory, request: ContextRequest, *, since: datetime, until: datetime
) -> BehaviourBisect:
    """Ask `request` as of `since` and `until`, and find the changes between them that made the difference.

    Leaves no trace. Raises Invalid where the span is empty or ends in the future.
    """
    search = _Bisect(view, request, since, until)
    search.ends = time.monotonic() + MAX_SECONDS
    steps = list(search.steps())
    return search.result([difference for step in reversed(steps) for difference in step.differences])


class _Bisect:
    """One search. Moments are those right after each group of changes, with both ends; a span is a pair of their
    places, with the number of groups at its end that are tried first."""

    def __init__(
        self,
        view: PersonaMemory,
        request: ContextRequest,
        since: datetime,
        until: datetime,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        if until > clock.now():
            raise Invalid("The end is in the future.", field="until")
        if since >= until:
            raise Invalid("The beginning must be before the end.", field="since")
        self._view = view
        self._request = request
        self._groups = event_groups(events_between(view, since, until))
        begins = [group[0].at for group in self._groups[1:]]
        self._moments = [
            since,
            *(
                min(group[-1].at + AFTER_COMMIT, *(begins[place : place + 1] or [until]), until)
                for place, group in enumerate(self._groups)
            ),
            until,
        ]
        self._states: dict[datetime, _State] = {}
        last = len(self._groups)
        if state and state["groups"] != last:
            raise Conflict("The changes are no longer the same. Find them again.")
        self.spans: list[tuple[int, int, int]] = [tuple(span) for span in state["spans"]] if state else [(0, last, 1)]
        self._digests: dict[int, str] = {int(place): each for place, each in state["digests"].items()} if state else {}
        self._prompts_before = state["prompts"] if state else 0
        self._is_new = not state
        self.ends = float("inf")

    def steps(self) -> Iterator[BisectStep]:
        """Try spans until none is left, the newest first."""
        last = len(self._groups)
        if self._is_new and (by_time := self._by_time(self._moments[last], self._moments[-1])):
            yield BisectStep(self._moments[last], self._moments[-1], 0, True, by_time)
        while self.spans:
            yield self._step(*self.spans.pop())

    def _step(self, low: int, high: int, reach: int) -> BisectStep:
        before, after = self._moments[low], self._moments[high]
        events = [event for group in self._groups[low:high] for event in group]
        found: list[Difference] = []
        differs = low < high and self._digest(low) != self._digest(high)
        if differs and high - low == 1:
            found = self._of_group(before, self._groups[low], after)
        elif differs and self._is_over():
            items = _items(self._state(before), self._state(after))
            found = [Difference(before, after, self._named(events, items), len(events), items, is_narrowed=False)]
        elif differs:
            middle = max(low + 1, high - reach)
            self.spans += [(low, middle, 2 * reach), (middle, high, max(1, (high - middle) // 2))]
        return BisectStep(before, after, len(events), differs, found)

    def state(self) -> dict[str, Any]:
        """What a later call needs to go on, as JSON."""
        places = {place for low, high, _ in self.spans for place in (low, high)}
        return {
            "groups": len(self._groups),
            "spans": self.spans,
            "digests": {place: each for place, each in self._digests.items() if place in places},
            "prompts": self._prompts,
        }

    def result(self, differences: Sequence[Difference]) -> BehaviourBisect:
        """The result of a search that is at its end, with the differences that it found."""
        events = [event for group in self._groups for event in group]
        since, until = self._moments[0], self._moments[-1]
        items = _items(self._state(since), self._state(until))
        unknown = dict.fromkeys(
            NOT_REBUILT[event.kind] for event in events if is_unknown(event, self._request.session_id)
        )
        failed = dict.fromkeys(reason for state in self._states.values() for reason in state.failed)
        return BehaviourBisect(
            since,
            until,
            self.known_since,
            len(events),
            self._prompts,
            differences,
            items,
            tuple(unknown),
            tuple(failed),
        )

    def _of_group(self, before: datetime, group: Sequence[Event], after: datetime) -> list[Difference]:
        """The difference made by the changes of one moment, and that made by time alone before them."""
        eve = group[0].at - TRANSACTION
        by_time = [] if eve <= before or self._is_over() else self._by_time(before, eve)
        begin = eve if by_time else before
        items = _items(self._state(begin), self._state(after))
        made = [Difference(begin, after, self._named(group, items), len(group), items)] if items else []
        return by_time + made

    def _by_time(self, before: datetime, after: datetime) -> list[Difference]:
        """The difference between two moments without a change between them."""
        items = _items(self._state(before), self._state(after)) if before < after else ()
        return [Difference(before, after, (), 0, items)] if items else []

    def _named(self, events: Sequence[Event], items: Sequence[ItemDifference]) -> list[Event]:
        differ = {(item.type, item.id) for item in items}
        about = [event for event in events if _item_of(event) in differ] or list(events[:1])
        return [event_with_author(self._view.agent, event) for event in about[:NAMED_EVENTS]]

    @property
    def known_since(self) -> datetime:
        """From when on the changes of the span are known: older ones may be past their retention, or too many."""
        since = self._moments[0]
        if sum(len(group) for group in self._groups) >= MAX_CHANGES:
            return max(since, self._groups[0][0].at)
        purged = ChangeStream.objects.filter(agent=self._view.agent, persona__in=self._view.personas, purged__gt=0)
        horizon = clock.now() - timedelta(days=settings.CHANGES_RETENTION_DAYS)
        return horizon if horizon > since and purged.exists() else since

    def _is_over(self) -> bool:
        return self._prompts >= MAX_PROMPTS or time.monotonic() >= self.ends

    @property
    def _prompts(self) -> int:
        return self._prompts_before + len(self._states)

    def _digest(self, place: int) -> str:
        """What stands for the prompt of a moment while a search is left."""
        if place not in self._digests:
            items = sorted(self._state(self._moments[place]).items.items())
            self._digests[place] = hashlib.sha256(repr(items).encode("utf-8", "replace")).hexdigest()[:32]
        return self._digests[place]

    def _state(self, moment: datetime) -> _State:
        if moment not in self._states:
            request = replace(self._request, as_of=moment, dry_run=True, explain=False)
            record = build_record(context_inputs_load(self._view, request_resolve(self._view, request)))
            items = {
                _key(item["type"], item["id"]): (section["label"], item.get("text", ""))
                for section in record.sections
                for item in section["items"]
                # It names the day of the request, which no change brought about.
                if item["type"] != "frame"
            }
            failed = tuple(f"{label}: {reason}" for label, reason in record.failed_sections)
            self._states[moment] = _State(items, failed)
        return self._states[moment]


def _items(before: _State, after: _State) -> list[ItemDifference]:
    """The items that differ from one prompt to another; their order does not count."""
    found = []
    for key in dict.fromkeys([*before.items, *after.items]):
        was, now = before.items.get(key), after.items.get(key)
        if was != now:
            section = (now or was or ("", ""))[0]
            found.append(ItemDifference(*key, section, was[1] if was else "", now[1] if now else ""))
    return found


def _key(item_type: str, item_id: str) -> Key:
    """The identity of an item in two prompts: for the identity its section, whatever the version."""
    return item_type, item_id.split(":", 1)[0] if item_type == "identity" else item_id


def _item_of(event: Event) -> Key:
    """The item of a prompt that an event is about."""
    if event.kind == "identity.changed":
        return "identity", str(event.details.get("section"))
    return event.object_type, event.object_id
