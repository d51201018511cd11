"""Close loops, derive the short-term entry of each, and restore missing rows that derive from the log.

Source: seed "Agentic Memory System", Derivation Pipelines.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from identity.models import Agent, Persona
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.change_feed import feed_change_draft, feed_changes_record
from memory.jobs import message_send
from memory.layers.event_validation import (
    CLOSING_KINDS,
    OPENING_KINDS,
    LoopDigest,
    loop_kind,
    loop_text,
    loop_visibility,
    tool_name,
)
from memory.models import Event, EventKind, LongTermEntry, LoopSummary, LoopSummaryQuerySet, Trust
from memory.services.events import long_term_store
from memory.services.search_index.writer import index_put
from memory.services.trust import screening_class
from memory.types import entry_of
from nousweb.lib import NotFound, clock
from nousweb.lib.injection.pieces import scan_pieces
from nousweb.lib.injection.scan import scan_text
from nousweb.lib.transactions import sql_change, sql_rows

BATCH = 500
TOOL_CALLS_READ = 200


@transaction.atomic
def loop_close(*, agent: Agent, loop_id: str, by: Principal) -> LoopSummary:
    """Close a loop of the persona that `by` acts as; its summary follows. A closed one is returned as it is.

    Raises NotFound, and NotAllowed.
    """
    by.require("memory.add_event", agent)
    loop = LoopSummary.objects.select_for_update().filter(agent=agent, persona=by.persona, loop_id=loop_id).first()
    if loop is None or not by.reads(loop):
        raise NotFound("There is no such loop.")
    by.require_keys(loop)
    if loop.closed_at is None:
        loop.put(closed_at=clock.now(), closed_by=LoopSummary.ClosedBy.REQUEST)
        audit_record(by=by, action="loop.close", target=loop, agent=agent, after={"closed_by": loop.closed_by})
        message_send("memory.tasks.derive_from_events", [loop.pk])
    return loop


def loops_close_idle() -> list[int]:
    """Close loops whose last event is NOUS_LOOP_IDLE_MINUTES old, a bounded batch at a time; returns their ids.

    Run by the clock. It needs no audit record: the loop says itself that idle time closed it.
    """
    horizon = clock.now() - timedelta(minutes=settings.LOOP_IDLE_MINUTES)
    # Persona by persona, so that neither keeps the other's waiting.
    return [
        loop_id
        for persona in Persona.values
        for agent_id in _idle(persona, horizon).order_by("agent").values_list("agent", flat=True).distinct()
        for loop_id in _close_idle(agent_id, persona, horizon)
    ]


def _idle(persona: str, horizon: datetime) -> LoopSummaryQuerySet:
    return LoopSummary.objects.filter(persona=persona, closed_at__isnull=True, last_event_at__lt=horizon)


def _close_idle(agent_id: int, persona: str, horizon: datetime) -> list[int]:
    closed: list[int] = []
    while True:
        with transaction.atomic():
            idle = _idle(persona, horizon).filter(agent=agent_id)
            free = idle.order_by("pk").select_for_update(skip_locked=True, of=("self",))
            rows = list(free.select_related("agent")[:BATCH])
            found = [row.pk for row in rows]
            own = LoopSummary.objects.filter(agent=agent_id, pk__in=found)
            own.update(closed_at=clock.now(), closed_by=LoopSummary.ClosedBy.IDLE)
            feed_changes_record(
                feed_change_draft(
                    "loop.closed", row.agent, row.persona, "loopsummary", row.loop_id, {"closed_by": "idle"}
                )
                for row in rows
            )
        closed += found
        if len(found) < BATCH:
            return closed


def loops_summarise(loop_ids: Iterable[int]) -> int:
    """Bring the summaries of these closed loops up to date; returns how many needed it.

    Each in a transaction of its own, so that one that fails keeps no other from its summary.
    """
    return sum(loop_summarise(loop_id) for loop_id in loop_ids)


@transaction.atomic
def loop_summarise(loop_pk: int) -> bool:
    """Derive one closed loop's summary from all its long-term entries; False when it is up to date.

    Under the row's lock, which writers of the loop's events take too, so the entries seen and the count are of one
    moment. Deriving again gives the same.
    """
    closed = LoopSummary.objects.filter(pk=loop_pk, closed_at__isnull=False)
    agent_id = closed.values_list("agent", flat=True).first()
    loop = closed.select_for_update().filter(agent=agent_id).first() if agent_id else None
    if loop is None or loop.covered_events >= loop.event_count:
        return False
    events = Event.objects.filter(agent=loop.agent_id, persona=loop.persona).of_loop(loop.loop_id)
    entries = LongTermEntry.objects.filter(agent=loop.agent_id, event__in=events).order_by("event__ts", "event_id")
    loop.long_term_ids = list(entries.values_list("pk", flat=True))
    if not loop.long_term_ids:
        return False
    loop.event_count = events.count()
    loop.covered_events = len(loop.long_term_ids)
    digest = _digest(entries.filter(quarantined=False))
    loop.summary = loop_text(digest)
    # What no event says by itself, several may say together.
    parts = [digest.opening, *digest.tools, *digest.errors, digest.output]
    own = screening_class(Trust.TOOL, "loop")
    if scan_text(loop.summary, own) or scan_pieces(parts, [own] * len(parts)):
        loop.summary = ""
    loop.kind = _kind(events)
    loop.visibility = loop_visibility(events.order_by().values_list("visibility", flat=True).distinct())
    loop.save()
    return True


def loop_renew(agent: Agent, persona: str, loop_id: str) -> None:
    """Derive the summary of a loop again after events of it were erased; a loop without events goes."""
    loop = LoopSummary.objects.select_for_update().filter(agent=agent, persona=persona, loop_id=loop_id).first()
    if loop is None:
        return
    kept = Event.objects.filter(agent=agent, persona=persona, loop_id=loop_id)
    if not kept.exists():
        loop.delete()
        return
    entries = kept.filter(pk__in=loop.long_term_ids).order_by("ts", "pk").values_list("pk", flat=True)
    loop.put(long_term_ids=list(entries), event_count=kept.count(), covered_events=0, summary="")
    loop_summarise(loop.pk)


def _kind(events: QuerySet[Event]) -> str:
    telling = events.filter(kind__in=[*CLOSING_KINDS, EventKind.ERROR]).values_list("kind", flat=True).last()
    first = events.values_list("kind", flat=True)[:1]
    return loop_kind([*first, *([telling] if telling else [])])


def _digest(entries: QuerySet[LongTermEntry]) -> LoopDigest:
    """The texts that the summary quotes, read in a few bounded queries."""
    texts = entries.values_list("text", flat=True)
    opening = texts.filter(event__kind__in=OPENING_KINDS).first() or texts.first() or ""
    calls = entries.filter(event__kind=EventKind.TOOL_CALL).values_list("text", "event__metadata")[:TOOL_CALLS_READ]
    errors = texts.filter(event__kind=EventKind.ERROR)
    last_error = errors.last()
    return LoopDigest(
        opening=opening,
        output=texts.filter(event__kind__in=CLOSING_KINDS).last() or "",
        tools=[name for text, metadata in calls if (name := tool_name(text, metadata))],
        errors=[last_error] if last_error else [],
        error_count=errors.count(),
    )


def summaries_heal() -> int:
    """Summarise closed loops whose summary lacks events, also where the message was lost; returns how many."""
    healed, last = 0, 0
    while True:
        found = list(
            LoopSummary.objects.stale().filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:BATCH]
        )
        if not found:
            return healed
        healed, last = healed + loops_summarise(found), found[-1]


def derived_backfill() -> dict[str, int]:
    """Heal what derives from the log: missing long-term entries, missing index rows, missing or stale summaries.

    In bounded batches, each a transaction of its own; running it again finds nothing to do. Returns how many rows
    of each were healed: "long_term", "index", "loops", "summaries". Embeddings are not its concern: rows of the
    index that it adds wait for theirs as any other.
    """
    return {
        "long_term": _healed(_heal_long_term),
        "index": _healed(_heal_index),
        "loops": _heal_loops(),
        "summaries": summaries_heal(),
    }


def _healed(heal: Callable[[int], list[int]]) -> int:
    """Call `heal` with the last key that it healed until it heals none, each time in a transaction; how many it did."""
    count, last = 0, 0
    while keys := transaction.atomic(heal)(last):
        count, last = count + len(keys), keys[-1]
    return count


def _heal_long_term(last: int) -> list[int]:
    events = list(Event.objects.filter(long_term__isnull=True, pk__gt=last).order_by("pk")[:BATCH])
    long_term_store(events)
    return [event.pk for event in events]


_UNINDEXED = """
SELECT entry.event_id FROM memory_longtermentry entry
WHERE entry.event_id > %s AND NOT EXISTS (
    SELECT 1 FROM memory_searchitem item
    WHERE item.agent_id = entry.agent_id AND item.persona = entry.persona
    AND item.item_type = 'event' AND item.item_id = entry.event_id::text)
ORDER BY entry.event_id LIMIT %s
"""


def _heal_index(last: int) -> list[int]:
    found = [row[0] for row in sql_rows(_UNINDEXED, [last, BATCH])]
    entries = LongTermEntry.objects.select_related("event").filter(pk__in=found).order_by("pk")
    index_put(entry_of(entry) for entry in entries)
    return found


_UNCOUNTED = """
INSERT INTO memory_loopsummary (
    agent_id, persona, loop_id, summary, kind, visibility, long_term_ids, event_count, covered_events,
    first_event_at, last_event_at, closed_at, closed_by, project, task, user_key)
SELECT agent_id, persona, loop_id, '', min(kind), min(visibility), '{}', count(*), 0, min(ts), max(ts),
    CASE WHEN bool_or(kind = ANY(%s)) THEN %s::timestamptz END, CASE WHEN bool_or(kind = ANY(%s)) THEN %s ELSE '' END,
    max(project), max(task), max(user_key)
FROM memory_event event
WHERE NOT EXISTS (
    SELECT 1 FROM memory_loopsummary loop
    WHERE loop.agent_id = event.agent_id AND loop.persona = event.persona AND loop.loop_id = event.loop_id)
GROUP BY agent_id, persona, loop_id ORDER BY min(id) LIMIT %s
ON CONFLICT (agent_id, persona, loop_id) DO NOTHING
"""


def _heal_loops() -> int:
    """Make the rows of loops that have events and no row; their summaries follow."""
    healed = 0
    closing = sorted(CLOSING_KINDS)
    while True:
        with transaction.atomic():
            made = sql_change(_UNCOUNTED, [closing, clock.now(), closing, LoopSummary.ClosedBy.OUTPUT.value, BATCH])
        healed += made
        if made < BATCH:
            return healed
