"""Record events in the append-only log and, in the same transaction, everything that derives from them at once.

Source: seed "Agentic Memory System", Derivation Pipelines.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from django.db import transaction

from identity.models import Agent, Persona
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.change_feed import feed_change_draft, feed_changes_record
from memory.jobs import message_send
from memory.layers.event_validation import (
    CLOSING_KINDS,
    KIND_IMPORTANCE,
    EventDraft,
    compact,
    events_check,
    loop_visibility,
)
from memory.models import NO_KEYS, Event, ImportedMemory, Keys, LongTermEntry, LoopSummary, user_write_check
from memory.services.quarantine.memories import event_show, open_quarantine_review, quarantine_entries
from memory.services.search_index.writer import index_put
from memory.services.trust import consent_request, event_origin, screened_as
from memory.types import entry_of
from nousweb.lib import Conflict, Invalid, NotAllowed, clock, existing
from nousweb.lib.bounds import EVERYBODY
from nousweb.lib.distribution import is_distributed
from nousweb.lib.transactions import sql_row, sql_rows

LOOPS_IN_AUDIT = 20


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One event of a call: `repeated` when its key was already in the log, and nothing was stored."""

    event: Event
    repeated: bool


class RepeatedKey(Conflict):
    """A key names another event already."""

    code = "key_taken"
    title = "This key names another event"


class ErasedKey(RepeatedKey):
    """A key names an event that a person erased."""

    code = "key_erased"
    title = "The event with this key was erased"


class OtherProject(Conflict):
    """A loop belongs to another project, task or user."""

    code = "other_project"
    title = "This loop belongs to another project, task or user"


def events_record(
    *, agent: Agent, events: Sequence[Mapping[str, Any]], by: Principal, persona: str = ""
) -> list[RecordedEvent]:
    """Append events to the log of the persona that `by` acts as; one result for each, in the same order.

    1. Every event is checked before any is stored (memory.layers.event_validation says what is accepted).
    2. An event whose `key` this persona's log holds already is not stored again: the one that is there is the
       answer, or RepeatedKey (409) when it says something else. This also holds within one call. ErasedKey (409) if
       people erased it: a client that repeats its writes does not bring it back.
    3. New events are stored with their long-term entries, their rows of the index and their loops; one audit
       record follows, and at most one task for the closed loops beside that for the index. Events without
       `loop_id` share a loop made for the call.
    4. An event without a project, a task or a user has those of its loop, so far. A loop has the first of each that one
       of its events names, and OtherProject (409) refuses another one. Whoever adds to a loop must be able to write its
       project and user, as well as those of the event.

    One persona's calls are stored one after another, so that its ids rise in the order in which events become visible
    and a repeated call sees what the first has stored. `persona` is for the product itself (imports); for people
    and tokens it is who they are. Raises Invalid, naming "events[i].field", RepeatedKey, OtherProject or NotAllowed.
    """
    by.require("memory.add_event", agent)
    persona = persona_check(by, persona)
    drafts = events_check(events, persona=persona, now=clock.now())
    with transaction.atomic():
        # Taken before the log is looked at, as it is the lock too; a repeated event leaves its number unused.
        ids = iter(event_ids_reserve(agent_id=agent.pk, persona=persona, count=len(drafts)))
        return _record(agent, persona, drafts, by, ids)


def persona_check(by: Principal, persona: str) -> str:
    """The persona that a write of `by` is for: theirs, and only the product itself may name one."""
    if persona and persona not in Persona.values:
        raise Invalid(f"persona must be one of {', '.join(Persona.values)}.", field="persona")
    if persona and persona != by.persona and by.kind != "system":
        raise NotAllowed(f"Only the {persona} itself can write its memory.")
    return persona or by.persona


def _record(
    agent: Agent, persona: str, drafts: list[EventDraft], by: Principal, ids: Iterator[int]
) -> list[RecordedEvent]:
    now = clock.now()
    known = _known(agent, persona, drafts)
    erased = erased_keys(agent, persona, [draft.key for draft in drafts])
    own_loop = f"loop-{uuid.uuid4().hex}"
    held_loops = _loop_keys(agent, persona, drafts)
    keys = dict(held_loops)
    new: list[Event] = []
    declared: dict[int, str] = {}
    answers: list[RecordedEvent] = []
    for place, draft in enumerate(drafts):
        held = known.get(draft.key) if draft.key else None
        if draft.key in erased:
            raise ErasedKey(
                f"events[{place}].key: the event {draft.key!r} was erased. It is not stored again.",
                field=f"events[{place}].key",
                key=draft.key,
            )
        if held is not None:
            if not by.reads(held) or not draft.says_the_same(held):
                raise RepeatedKey(
                    f"events[{place}].key: {draft.key!r} already names another event, and events are never changed.",
                    field=f"events[{place}].key",
                    key=draft.key,
                )
            answers.append(RecordedEvent(held, repeated=True))
            continue
        loop_id = draft.loop_id or own_loop
        loop = keys.get(loop_id, NO_KEYS)
        if not by.reads(loop):
            raise OtherProject("This loop belongs to another project or user.", field=f"events[{place}].loop_id")
        if loop_id in held_loops:
            by.require_project(loop.project, f"events[{place}].loop_id")
        if not (loop.user and draft.user in ("", EVERYBODY)):
            user = user_write_check(agent, by, draft.user, field=f"events[{place}].user")
            draft = replace(draft, user=user)
        joined = keys[loop_id] = _keys_joined(f"events[{place}]", draft, loop)
        by.require_project(joined.project, f"events[{place}].project")
        by.require_user(joined.user, f"events[{place}].user")
        event = Event(
            pk=next(ids),
            agent=agent,
            persona=persona,
            ts=draft.ts or now,
            recorded_at=now,
            loop_id=loop_id,
            kind=draft.kind,
            visibility=draft.visibility,
            content=draft.content,
            metadata=draft.metadata,
            key=draft.key,
            **joined._asdict(),
        )
        if draft.key:
            known[draft.key] = event
        new.append(event)
        if draft.origin:
            declared[event.pk] = draft.origin
        answers.append(RecordedEvent(event, repeated=False))
    if new:
        _store(agent, persona, new, by, declared)
    return answers


def _loop_keys(agent: Agent, persona: str, drafts: list[EventDraft]) -> dict[str, Keys]:
    loops = {draft.loop_id for draft in drafts if draft.loop_id}
    held = LoopSummary.objects.filter(agent=agent, persona=persona, loop_id__in=loops)
    return {loop_id: Keys(*keys) for loop_id, *keys in held.values_list("loop_id", *Keys._fields)}


def _keys_joined(place: str, draft: EventDraft, loop: Keys) -> Keys:
    """The keys of an event in a loop with these keys, which are the loop's from then on."""
    for name, held in loop._asdict().items():
        given = getattr(draft, name).replace(EVERYBODY, "") if name == "user" else getattr(draft, name)
        if held and given and held != given:
            raise OtherProject(
                f"{place}.{name}: this loop belongs to the {name} {held!r}; use another loop for "
                "events of another one.",
                field=f"{place}.{name}",
            )
    user = loop.user if draft.user in ("", EVERYBODY) else draft.user
    return Keys(draft.project or loop.project, draft.task or loop.task, user)


def _known(agent: Agent, persona: str, drafts: list[EventDraft]) -> dict[str, Event]:
    keys = {draft.key for draft in drafts if draft.key}
    held = Event.objects.filter(agent=agent, persona=persona, key__in=keys)
    return {event.key: event for event in held if event.key}


def erased_keys(agent: Agent, persona: str, keys: Iterable[str | None]) -> set[str | None]:
    """Those of the keys that named events which people erased. One statement, none without keys."""
    named = {ImportedMemory.digest(key): key for key in keys if key}
    known = ImportedMemory.objects.filter(agent=agent, persona=persona, system=ImportedMemory.AGENT, key__in=named)
    return {named[digest] for digest in known.values_list("key", flat=True)}


def _store(agent: Agent, persona: str, events: list[Event], by: Principal, declared: Mapping[int, str]) -> None:
    Event.objects.bulk_create(events)
    long_term_store(events, by, declared)
    closed = _loops_extend(agent, persona, events)
    loops = list(dict.fromkeys(event.loop_id for event in events))
    audit_record(
        by=by,
        action="events.record",
        target=events[0],
        agent=agent,
        label=f"loop {loops[0]}",
        after={
            "count": len(events),
            "first_id": events[0].pk,
            "last_id": events[-1].pk,
            "persona": persona,
            "loops": loops[:LOOPS_IN_AUDIT],
            "loop_count": len(loops),
        },
    )
    if closed:
        message_send("memory.tasks.derive_from_events", closed)


def long_term_store(
    events: Sequence[Event], by: Principal | None = None, declared: Mapping[int, str] = MappingProxyType({})
) -> None:
    """Derive the long-term entries of events that have none, with their rows of the index; `by` recorded them and has
    `declared` the origins of some, by their ids."""
    entries = [
        LongTermEntry(
            event=event,
            agent_id=event.agent_id,
            persona=event.persona,
            loop_id=event.loop_id,
            text=compact(event.content, kind=event.kind, metadata=event.metadata),
            importance=KIND_IMPORTANCE[event.kind],
            origin=event_origin(event.kind, event.metadata, by, declared.get(event.pk, "")),
        )
        for event in events
    ]
    for entry in entries:
        if by is not None:
            entry.screened_as = screened_as(by, declared.get(entry.event_id, ""))
            entry.consent = consent_request(
                entry.event.agent,
                by,
                category="event",
                trust=entry.origin,
                project=entry.event.project,
                source=f"loop {entry.loop_id}",
                declared=entry.screened_as,
            )
    quarantined = quarantine_entries(entries)
    LongTermEntry.objects.bulk_create(entries, ignore_conflicts=True)
    for entry, text, match in quarantined:
        items = [("event", str(entry.event_id))]
        open_quarantine_review(entry.event.agent, entry.persona, items, text, match, entry.consent)
    for entry in entries:
        event_show(entry)
    index_put(entry_of(entry) for entry in entries)


_LOOPS_EXTEND = """
INSERT INTO memory_loopsummary AS held (
    agent_id, persona, loop_id, summary, kind, visibility, long_term_ids, event_count, covered_events,
    first_event_at, last_event_at, closed_at, closed_by, project, task, user_key)
VALUES {rows}
ON CONFLICT (agent_id, persona, loop_id) DO UPDATE SET
    event_count = held.event_count + excluded.event_count,
    first_event_at = least(held.first_event_at, excluded.first_event_at),
    last_event_at = greatest(held.last_event_at, excluded.last_event_at),
    closed_at = coalesce(held.closed_at, excluded.closed_at),
    closed_by = CASE WHEN held.closed_at IS NULL THEN excluded.closed_by ELSE held.closed_by END,
    project = CASE WHEN held.project = '' THEN excluded.project ELSE held.project END,
    task = CASE WHEN held.task = '' THEN excluded.task ELSE held.task END,
    user_key = CASE WHEN held.user_key = '' THEN excluded.user_key ELSE held.user_key END
RETURNING id, loop_id, closed_at IS NOT NULL, closed_at = %s
"""
_LOOP = "(%s, %s, %s, '', %s, %s, '{}', %s, 0, %s, %s, %s, %s, %s, %s, %s)"


def _loops_extend(agent: Agent, persona: str, events: Sequence[Event]) -> list[int]:
    """Count events into their loops, making those that are new; returns the ids of the closed ones.

    A closed loop stays closed when more arrives, which its summary then covers too.
    """
    now = clock.now()
    loops: dict[str, list[Event]] = {}
    for event in events:
        loops.setdefault(event.loop_id, []).append(event)
    values: list[Any] = []
    # In one order in all calls, which otherwise might wait for each other.
    for loop_id, found in sorted(loops.items()):
        closes = any(event.kind in CLOSING_KINDS for event in found)
        values += (
            agent.pk,
            persona,
            loop_id,
            found[0].kind,
            loop_visibility(event.visibility for event in found),
            len(found),
            min(event.ts for event in found),
            max(event.ts for event in found),
            now if closes else None,
            LoopSummary.ClosedBy.OUTPUT.value if closes else "",
            # Each event has at least the keys of those before it.
            found[-1].project,
            found[-1].task,
            found[-1].user,
        )
    rows = sql_rows(_LOOPS_EXTEND.format(rows=", ".join([_LOOP] * len(loops))), [*values, now])
    feed_changes_record(
        feed_change_draft("loop.closed", agent, persona, "loopsummary", loop_id, {"closed_by": "output"})
        for _, loop_id, _, closes in rows
        if closes
    )
    return [row_id for row_id, _, is_closed, _ in rows if is_closed]


AGENT_BITS = 36
PERSONA_BIT = {Persona.ACTOR.value: 0, Persona.SUBCONSCIOUS.value: 1}

# The agent's key is held, so that it is not erased meanwhile; both personas may hold it at once.
_RESERVE = """
INSERT INTO memory_eventsequence AS held (agent_id, persona, last)
SELECT id, %(persona)s, %(count)s FROM identity_agent WHERE id = %(agent)s FOR KEY SHARE
ON CONFLICT (agent_id, persona) DO UPDATE SET last = held.last + excluded.last
RETURNING last
"""
# Citus takes a statement that reads one table and writes another to all parts of both; there the foreign key holds it.
_RESERVE_ROUTED = """
INSERT INTO memory_eventsequence AS held (agent_id, persona, last) VALUES (%(agent)s, %(persona)s, %(count)s)
ON CONFLICT (agent_id, persona) DO UPDATE SET last = held.last + excluded.last
RETURNING last
"""


def event_ids_reserve(*, agent_id: int, persona: str, count: int) -> list[int]:
    """The next `count` ids of a persona's events, ascending. Needs a transaction.

    Until it ends, the next caller for the same persona waits, and nobody else does. Raises NotFound when there is no
    such agent any more.
    """
    statement = _RESERVE_ROUTED if is_distributed() else _RESERVE
    row = existing(sql_row(statement, {"agent": agent_id, "persona": persona, "count": count}), "No such agent.")
    first = row[0] - count + 1
    return [event_id(agent_id, persona, first + place) for place in range(count)]


def event_id(agent_id: int, persona: str, number: int) -> int:
    """The id of a persona's event with this number, which counts from 1."""
    return (agent_id << AGENT_BITS) + number * 2 + PERSONA_BIT[persona]
