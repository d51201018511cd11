"""The change feed: writing what happened, in the transaction of the change, and reading it in order.

A stream is what happened to one persona of one agent. The database numbers it after the commit without gaps (see
identity/migrations/0009_change_feed.py), so reading never waits for a writer and never passes one over.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection, models

from identity.models import Agent, AuditEvent, Change, Persona
from identity.policy.changes import CHANGE_KINDS, KIND_OF_ACTION
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from nousweb.lib import clock
from nousweb.lib.errors import DomainError
from nousweb.lib.prepared_statements import instance_insert


class CursorGone(DomainError):
    """A cursor points to what is no longer kept, or is not there: the reader has to start over."""

    status = 410
    code = "cursor_gone"
    title = "This cursor has expired"


def change_record(
    *,
    kind: str,
    agent: Agent,
    persona: str,
    object_type: str,
    object_id: object,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write one domain event of a persona, inside the transaction of what it tells of.

    `kind` is one of CHANGE_KINDS; `details` are ready for JSON and hold no text of a memory.
    """
    instance_insert(change_draft(kind, agent, persona, object_type, object_id, details))


def key_new() -> UUID:
    """A name for a change."""
    return uuid4()


def change_draft(
    kind: str,
    agent: Agent,
    persona: str,
    object_type: str,
    object_id: object,
    details: Mapping[str, Any] | None = None,
) -> Change:
    """What `change_record` would write, unsaved: for whoever writes many, or one together with something else."""
    if kind not in CHANGE_KINDS:
        raise ValueError(f"identity/policy/changes.py declares no {kind}")
    return Change(
        key=key_new(),
        kind=kind,
        agent=agent,
        persona=persona,
        object_type=object_type,
        object_id=str(object_id),
        details=dict(details or {}),
    )


def changes_record(drafts: Iterable[Change]) -> None:
    """Write drafts in their order, inside the transaction of what they tell of."""
    changes = list(drafts)
    if len(changes) == 1:
        instance_insert(changes[0])
    elif changes:
        Change.objects.bulk_create(changes)


def change_of_audit(record: AuditEvent, agent: Agent | None, target: models.Model) -> Change | None:
    """The domain event, unsaved, that an audit record about `target` is, if its action is declared as one."""
    kind = KIND_OF_ACTION.get(record.action)
    if kind is None or agent is None:
        return None
    names = CHANGE_KINDS[kind].details
    return change_draft(
        kind=kind,
        agent=agent,
        persona=record.persona if record.persona in Persona.values else Persona.ACTOR,
        object_type=record.object_type,
        object_id=getattr(target, CHANGE_KINDS[kind].named_by),
        details={name: record.after[name] for name in names if name in record.after}
        if isinstance(record.after, dict)
        else {},
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader stands in one stream: after `position`, whose change has a key that begins with `key`."""

    position: int
    key: str = ""


Places = Mapping[str, Place]
"""By persona."""


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes in order, the places after them, and whether there are more already."""

    changes: Sequence[Change]
    places: dict[str, Place]
    more: bool


def streams_of(by: Principal) -> tuple[str, ...]:
    """The personas whose changes `by` may know of: an actor its own, its subconscious and holders of the right both."""
    if by.token is not None:
        return (Persona.ACTOR, Persona.SUBCONSCIOUS) if by.persona == Persona.SUBCONSCIOUS else (Persona.ACTOR,)
    return (Persona.ACTOR, Persona.SUBCONSCIOUS) if by.may(VIEW_SUBCONSCIOUS) else (Persona.ACTOR,)


def kinds_of(by: Principal) -> frozenset[str]:
    """The kinds of change that `by` may know of."""
    return frozenset(kind for kind, declared in CHANGE_KINDS.items() if by.may(declared.permission))


def stream_publish(agent_id: int, persona: str) -> int:
    """Give places to the committed changes of a stream that have none; returns how many.

    Not to be called in a long transaction: the stream is held until its end. What acts for the subconscious leaves the
    actor's stream to others.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT nous_changes_publish(%s, %s)", [agent_id, persona])
        return int(cursor.fetchone()[0])


def streams_publish() -> int:
    """Give places to whatever has none, in every stream; returns how many. The worker's, every second."""
    waiting = Change.objects.filter(position__isnull=True).order_by().values_list("agent_id", "persona").distinct()
    return sum(stream_publish(agent_id, persona) for agent_id, persona in waiting)


def changes_purge(*, before: datetime | None = None) -> int:
    """Delete changes from before a moment, by default past NOUS_CHANGES_RETENTION_DAYS; returns how many.

    A younger one keeps those after it, so that what is left has no holes.
    """
    horizon = before or clock.now() - timedelta(days=settings.CHANGES_RETENTION_DAYS)
    streams_publish()
    old = Change.objects.filter(at__lt=horizon).order_by().values_list("agent_id", "persona").distinct()
    total = 0
    for agent_id, persona in old:
        with connection.cursor() as cursor:
            cursor.execute("SELECT nous_changes_purge(%s, %s, %s)", [agent_id, persona, horizon])
            total += cursor.fetchone()[0]
    return total


_ENDS = """
SELECT stream.persona, stream.last, stream.purged, tip.key, seen.key, asked.position
FROM unnest(%s::text[], %s::bigint[]) AS asked (persona, position)
JOIN identity_changestream stream ON stream.agent_id = %s AND stream.persona = asked.persona
LEFT JOIN identity_change tip
    ON tip.agent_id = stream.agent_id AND tip.persona = stream.persona AND tip.position = stream.last
LEFT JOIN identity_change seen
    ON seen.agent_id = stream.agent_id AND seen.persona = stream.persona AND seen.position = asked.position
"""


def changes_read(
    *, agent: Agent, streams: Sequence[str], after: Places, kinds: Collection[str], limit: int, newest: bool = False
) -> ChangePage:
    """The next `limit` published changes of these streams after these places, of these kinds.

    Each stream is in its own order, and complete; between two streams the order is that of writing. A stream without a
    place is read from the oldest change that is kept, with `newest` from its end. Raises CursorGone.
    """
    ends = _ends(agent, streams, after)
    rows: dict[str, list[Change]] = {}
    places = {persona: after.get(persona, Place(0)) for persona in streams}
    more = False
    for persona, (begin, end) in ends.items():
        if newest and persona not in after:
            places[persona] = end
            continue
        found = Change.objects.filter(
            agent=agent,
            persona=persona,
            position__gt=begin,
            position__lte=end.position,
            kind__in=kinds,
        ).order_by("position")[: limit + 1]
        rows[persona] = list(found)
        # What is not for this reader is passed over once and not looked at again.
        places[persona] = end
    merged = _merged(list(rows.values()))
    if len(merged) > limit:
        more, merged = True, merged[:limit]
        for persona, found_rows in rows.items():
            taken = [change for change in merged if change.persona == persona]
            if len(taken) < len(found_rows):
                last = taken[-1] if taken else None
                before = after.get(persona, Place(ends[persona][0]))
                places[persona] = Place(last.position or 0, last.key.hex[:8]) if last else before
    return ChangePage(merged, places, more)


@dataclass(frozen=True, slots=True)
class LatestChanges:
    """Changes, the latest first, and by persona the position from which the earlier ones go on; {} for no more."""

    changes: Sequence[Change]
    before: dict[str, int]


def changes_latest(
    *, agent: Agent, streams: Sequence[str], kinds: Collection[str], before: Mapping[str, int], limit: int
) -> LatestChanges:
    """The latest `limit` changes of these streams and kinds, in each stream those with a position under `before`."""
    rows: dict[str, list[Change]] = {}
    for persona in streams:
        found = Change.objects.filter(agent=agent, persona=persona, kind__in=kinds, position__isnull=False)
        if persona in before:
            found = found.filter(position__lt=before[persona])
        rows[persona] = list(found.order_by("-position")[: limit + 1])
    merged = _merged([found[::-1] for found in rows.values()])[::-1]
    if len(merged) <= limit:
        return LatestChanges(merged, {})
    page = merged[:limit]
    last = {change.persona: change.position or 0 for change in page}
    return LatestChanges(page, {**before, **last})


def _ends(agent: Agent, streams: Sequence[str], after: Places) -> dict[str, tuple[int, Place]]:
    """By stream the position to read from and the place to read to. Raises CursorGone."""
    with connection.cursor() as cursor:
        positions = [after[persona].position if persona in after else 0 for persona in streams]
        cursor.execute(_ENDS, [list(streams), positions, agent.pk])
        rows = {row[0]: row[1:] for row in cursor.fetchall()}
    found = {}
    for persona in streams:
        place = after.get(persona)
        if persona not in rows:
            if place is not None and place.position:
                raise CursorGone("This cursor belongs to another agent or to another database.")
            continue
        last, purged, tip, seen, _ = rows[persona]
        if place is not None and place.position:
            if place.position < purged:
                raise CursorGone(
                    "Changes after this cursor have been deleted by age. Read the data that you need again, and"
                    " continue with new changes: after=now."
                )
            other = seen is not None and place.key and seen.hex[:8] != place.key
            if place.position > last or other:
                raise CursorGone("This cursor belongs to another agent or to another database.")
        begin = place.position if place is not None and place.position else purged
        # The tip may have been deleted by age; then the place is known by its number alone.
        found[persona] = (begin, Place(last, tip.hex[:8] if tip else ""))
    return found


def _merged(streams: Sequence[Sequence[Change]]) -> list[Change]:
    """Several streams as one: each keeps its order, and of the first of each the one comes that was written first."""
    waiting = [list(reversed(rows)) for rows in streams if rows]
    merged = []
    while waiting:
        first = min(waiting, key=lambda rows: rows[-1].pk)
        merged.append(first.pop())
        waiting = [rows for rows in waiting if rows]
    return merged
