"""The change feed: record a change in its own transaction, read changes in order, and wait for the next one.

A stream contains the changes of one persona of one agent. The database numbers them after the commit without gaps
(`CHANGE_FEED` in identity/migrations/0001_initial.py), so reading never waits for a writer and never
misses one.

Bodies of changes, the present state of their objects, are read on request and never stored. Other apps add their types:
each entry of `bodies` returns, for ids of one type of object, those that still exist and belong to one of the personas.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import merge
from operator import attrgetter
from threading import Lock
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, models
from django.db.models import QuerySet
from django.utils.module_loading import import_string

from identity.models import Agent, ApiToken, AuditEvent, Change, ChangeProposal, IdentityVersion, Persona
from identity.policy.changes import CHANGE_KINDS, KIND_OF_ACTION, POLL_SECONDS, RETRY_WAIT_SECONDS, blocks_touched
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from nousweb.lib import DomainError, NotAllowed, TooMany, clock
from nousweb.lib.prepared_statements import instance_insert
from nousweb.lib.shutdown import stopping
from nousweb.lib.transactions import sql_row, sql_rows


class CursorGone(DomainError):
    """A cursor points to changes that were deleted or never existed: the reader has to start over."""

    status = 410
    code = "cursor_gone"
    title = "This cursor has expired"


def feed_change_record(
    *,
    kind: str,
    agent: Agent,
    persona: str,
    object_type: str,
    object_id: object,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Record one change of a persona, inside the transaction of the change itself.

    `kind` is one of CHANGE_KINDS; `details` are ready for JSON and contain no text of a memory.
    """
    instance_insert(feed_change_draft(kind, agent, persona, object_type, object_id, details))


def change_key_new() -> UUID:
    """Return the key of a new change."""
    return uuid4()


def feed_change_draft(
    kind: str,
    agent: Agent,
    persona: str,
    object_type: str,
    object_id: object,
    details: Mapping[str, Any] | None = None,
) -> Change:
    """Build an unsaved change, for inserting many, or one together with another row."""
    if kind not in CHANGE_KINDS:
        raise ValueError(f"identity/policy/changes.py declares no {kind}")
    return Change(
        key=change_key_new(),
        kind=kind,
        agent=agent,
        persona=persona,
        object_type=object_type,
        object_id=str(object_id),
        details=dict(details or {}),
    )


def feed_changes_record(drafts: Iterable[Change]) -> None:
    """Record unsaved changes in their order, inside the transaction of the changes themselves."""
    changes = list(drafts)
    if len(changes) == 1:
        instance_insert(changes[0])
    else:
        Change.objects.bulk_create(changes)


def feed_change_of_audit(record: AuditEvent, agent: Agent | None, target: models.Model) -> Change | None:
    """Build the unsaved change for an audit record about `target`; None if its action is not declared as a change."""
    kind = KIND_OF_ACTION.get(record.action)
    if kind is None or agent is None:
        return None
    names = CHANGE_KINDS[kind].details
    return feed_change_draft(
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
class StreamPosition:
    """The position of a reader in one stream: after the change with this number, whose key begins with `key`."""

    number: int
    key: str = ""


StreamPositions = Mapping[str, StreamPosition]
"""By persona."""


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes in order, the positions after them, and whether there are more already."""

    changes: Sequence[Change]
    positions: dict[str, StreamPosition]
    more: bool


def streams_told(both: bool) -> tuple[str, ...]:
    """The personas whose changes a reader receives: both, or the actor alone."""
    return (Persona.ACTOR, Persona.SUBCONSCIOUS) if both else (Persona.ACTOR,)


def streams_of(by: Principal) -> tuple[str, ...]:
    """The personas whose changes `by` may see: of an actor, or of both personas."""
    return streams_told(by.persona == Persona.SUBCONSCIOUS if by.token is not None else by.may(VIEW_SUBCONSCIOUS))


def kinds_of(by: Principal) -> frozenset[str]:
    """The kinds of changes that `by` may see."""
    return frozenset(kind for kind, declared in CHANGE_KINDS.items() if by.may(declared.permission))


def stream_publish(agent_id: int, persona: str) -> int:
    """Number the committed changes of a stream that have no position yet; returns how many.

    Do not call it in a long transaction: the stream is locked until its end. Callers that act for the subconscious must
    not call it for the actor's stream.
    """
    return int(sql_row("SELECT nous_changes_publish(%s, %s)", [agent_id, persona])[0])


def streams_publish() -> int:
    """Number all changes that have no position yet; returns how many. The worker runs it each second."""
    waiting = Change.objects.filter(position__isnull=True).order_by().values_list("agent_id", "persona").distinct()
    return sum(stream_publish(agent_id, persona) for agent_id, persona in waiting)


def changes_purge(*, before: datetime | None = None) -> int:
    """Delete changes from before a moment, by default past NOUS_CHANGES_RETENTION_DAYS; returns how many.

    Changes after a younger one are kept, so that the rest of a stream has no gaps.
    """
    horizon = before or clock.now() - timedelta(days=settings.CHANGES_RETENTION_DAYS)
    streams_publish()
    old = Change.objects.filter(at__lt=horizon).order_by().values_list("agent_id", "persona").distinct()
    return sum(sql_row("SELECT nous_changes_purge(%s, %s, %s)", [*stream, horizon])[0] for stream in old)


WRITTEN = attrgetter("pk")
"""By which streams are merged: each keeps its order, and of their next changes the one that was written first comes."""

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
    *,
    agent: Agent,
    streams: Sequence[str],
    after: StreamPositions,
    kinds: Collection[str],
    limit: int,
    newest: bool = False,
) -> ChangePage:
    """The next `limit` numbered changes of these streams and kinds after these positions.

    Each stream is in its own order, and complete; between two streams the order is that of writing. A stream without a
    position is read from its oldest change, or from its end with `newest`. Raises CursorGone.
    """
    ends = _ends(agent, streams, after)
    rows: dict[str, list[Change]] = {}
    positions = {persona: after.get(persona, StreamPosition(0)) for persona in streams}
    more = False
    for persona, (begin, end) in ends.items():
        if newest and persona not in after:
            positions[persona] = end
            continue
        found = Change.objects.filter(
            agent=agent,
            persona=persona,
            position__gt=begin,
            position__lte=end.number,
            kind__in=kinds,
        ).order_by("position")[: limit + 1]
        rows[persona] = list(found)
        # Changes of other kinds are skipped once and not read again.
        positions[persona] = end
    merged = list(merge(*rows.values(), key=WRITTEN))
    if len(merged) > limit:
        more, merged = True, merged[:limit]
        for persona, found_rows in rows.items():
            taken = [change for change in merged if change.persona == persona]
            if len(taken) < len(found_rows):
                last = taken[-1] if taken else None
                before = after.get(persona, StreamPosition(ends[persona][0]))
                positions[persona] = StreamPosition(last.position or 0, last.key.hex[:8]) if last else before
    return ChangePage(merged, positions, more)


def changes_latest(
    *, agent: Agent, streams: Sequence[str], kinds: Collection[str], before: Mapping[str, int], limit: int
) -> tuple[Sequence[Change], dict[str, int]]:
    """The latest `limit` changes of these streams and kinds, in each stream those with a position under `before`, and
    by persona the position before which earlier ones follow; {} if there are none."""
    rows: dict[str, list[Change]] = {}
    for persona in streams:
        found = Change.objects.filter(agent=agent, persona=persona, kind__in=kinds, position__isnull=False)
        if persona in before:
            found = found.filter(position__lt=before[persona])
        rows[persona] = list(found.order_by("-position")[: limit + 1])
    merged = list(merge(*rows.values(), key=WRITTEN, reverse=True))
    if len(merged) <= limit:
        return merged, {}
    page = merged[:limit]
    last = {change.persona: change.position or 0 for change in page}
    return page, {**before, **last}


def _ends(agent: Agent, streams: Sequence[str], after: StreamPositions) -> dict[str, tuple[int, StreamPosition]]:
    """By stream the number to read from and the position to read to. Raises CursorGone."""
    positions = [after[persona].number if persona in after else 0 for persona in streams]
    rows = {row[0]: row[1:] for row in sql_rows(_ENDS, [list(streams), positions, agent.pk])}
    found = {}
    for persona in streams:
        position = after.get(persona)
        if persona not in rows:
            if position is not None and position.number:
                raise CursorGone("This cursor belongs to another agent or to another database.")
            continue
        last, purged, tip, seen, _ = rows[persona]
        if position is not None and position.number:
            if position.number < purged:
                raise CursorGone(
                    "Changes after this cursor have been deleted by age. Read the data that you need again, and"
                    " continue with new changes: after=now."
                )
            other = seen is not None and position.key and seen.hex[:8] != position.key
            if position.number > last or other:
                raise CursorGone("This cursor belongs to another agent or to another database.")
        begin = position.number if position is not None and position.number else purged
        # The tip may have been deleted by age; then the position has its number only.
        found[persona] = (begin, StreamPosition(last, tip.hex[:8] if tip else ""))
    return found


Bodies = dict[str, dict[str, Any]]
BodyLoader = Callable[[Agent, Collection[str], Sequence[str]], Bodies]


def bodies_of(
    agent: Agent, changes: Sequence[Change], personas: Sequence[str]
) -> dict[tuple[str, str], dict[str, Any]]:
    """The bodies of the objects of these changes, by type and id; without objects that are gone or have none.

    The caller has checked that the reader may see the changes: a reader who may see a change may read its body.
    """
    ids: dict[str, set[str]] = {}
    for change in changes:
        ids.setdefault(change.object_type, set()).add(change.object_id)
    return {
        (name, key): body
        for name, wanted in ids.items()
        if name in bodies
        for key, body in bodies[name](agent, wanted, personas).items()
    }


def changes_json(
    agent: Agent, changes: Iterable[Change], personas: Sequence[str], *, with_bodies: bool
) -> list[dict[str, Any]]:
    """Changes as the API and webhooks tell of them."""
    changes = list(changes)
    held = bodies_of(agent, changes, personas) if with_bodies else {}
    return [
        {
            "id": change.key,
            "kind": change.kind,
            "persona": change.persona,
            "at": change.at,
            "object_type": change.object_type,
            "object_id": change.object_id,
            "details": change.details,
            "blocks": blocks_touched(change.kind),
            "body": held.get((change.object_type, change.object_id)),
        }
        for change in changes
    ]


def body_loader(rows: Callable[[], QuerySet], schema: str) -> BodyLoader:
    """A loader of `rows`, which have an agent and a persona, as the schema with this dotted name shows them.

    The schema is imported at the first request: commands and workers start sooner without the modules of the API.
    """

    def load(agent: Agent, ids: Collection[str], personas: Sequence[str]) -> Bodies:
        shown = import_string(schema)
        found = rows().filter(agent=agent, persona__in=personas, pk__in=ids)
        return {str(row.pk): shown.from_orm(row).model_dump(mode="json") for row in found}

    return load


def _versions(agent: Agent, ids: Collection[str], personas: Sequence[str]) -> Bodies:
    shown = import_string("identity.api.VersionOut")
    rows = IdentityVersion.objects.select_related("previous", "restores").filter(agent=agent, pk__in=ids)
    return {str(row.pk): shown.from_orm(row).model_dump(mode="json") | {"section": row.section} for row in rows}


bodies: dict[str, BodyLoader] = {
    "identityversion": _versions,
    "changeproposal": body_loader(
        lambda: ChangeProposal.objects.select_related("agent", "version"), "identity.api.ProposalOut"
    ),
}


_lock = Lock()
_waiting: Counter[tuple[str, str]] = Counter()


def changes_await(
    *,
    agent: Agent,
    by: Principal,
    after: StreamPositions,
    kinds: Collection[str],
    limit: int,
    newest: bool = False,
    seconds: float = 0,
) -> ChangePage:
    """The next changes for `by`, waiting up to `seconds` for the first one.

    A reader publishes its own persona's stream, so that it finds everything committed before its request. The other
    persona's stream is published by its other readers, at the latest by the worker: no lock delays the actor. Raises
    TooMany if there is no change and too many readers of this caller, or of this process, are waiting, and NotAllowed
    for a reader who may not see these changes any more when they come.
    """
    streams = streams_of(by)

    def read(positions: StreamPositions, newest: bool) -> ChangePage:
        for persona in streams:
            if by.token is None or persona == by.persona:
                stream_publish(agent.pk, persona)
        return changes_read(agent=agent, streams=streams, after=positions, kinds=kinds, limit=limit, newest=newest)

    page = read(after, newest)
    if page.changes or not seconds or connection.in_atomic_block:
        return page
    deadline = time.monotonic() + seconds
    with _position(by):
        while not page.changes and (left := deadline - time.monotonic()) > 0:
            if stopping.wait(min(POLL_SECONDS, left)):
                break
            page = read(page.positions, False)
    if page.changes and not _may_see(_reloaded(by), agent, page.changes):
        raise NotAllowed("The access of this reader ended while it waited.")
    return page


def _reloaded(by: Principal) -> Principal:
    """The same token or person with the rights of this moment; with none for one that opens nothing any more."""
    if by.token is None:
        return replace(by, user=User.objects.filter(pk=by.id).first())
    tokens = ApiToken.objects.usable().exclude(secret_expires_at__lte=clock.now())
    return replace(by, token=tokens.filter(pk=by.id).first())


def _may_see(by: Principal, agent: Agent, changes: Sequence[Change]) -> bool:
    kinds, personas = {change.kind for change in changes}, {change.persona for change in changes}
    reaches = by.agents is None or agent.pk in by.agents
    return reaches and kinds <= kinds_of(by) and personas <= set(streams_of(by))


@contextmanager
def _position(by: Principal) -> Iterator[None]:
    """One of the places for readers that wait: a thread of the web server each."""
    caller = (by.kind, by.id)
    most = settings.CHANGE_WAITERS
    with _lock:
        if _waiting.total() >= most or _waiting[caller] >= max(1, most // 2):
            raise TooMany(
                "Too many readers are waiting for changes. Ask without wait, or retry in a moment.",
                retry_after=RETRY_WAIT_SECONDS,
            )
        _waiting[caller] += 1
    try:
        yield
    finally:
        with _lock:
            _waiting[caller] -= 1
            if not _waiting[caller]:
                del _waiting[caller]
