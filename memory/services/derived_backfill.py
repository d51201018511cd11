"""Restores missing rows that derive from the event log: long-term entries, index rows, loops and summaries."""

from django.db import transaction

from memory.layers.event_validation import CLOSING_KINDS
from memory.models import Event, LongTermEntry, LoopSummary
from memory.services.events import long_term_store
from memory.services.loops import summaries_heal
from memory.services.search_index.writer import index_put
from memory.types import entry_of
from nousweb.lib import clock
from nousweb.lib.transactions import sql_change, sql_rows

BATCH = 500


def derived_backfill() -> dict[str, int]:
    """Heal what derives from the log: missing long-term entries, missing index rows, missing or stale summaries.

    In bounded batches, each a transaction of its own; running it again finds nothing to do. Returns how many rows
    of each were healed: "long_term", "index", "loops", "summaries". Embeddings are not its concern: rows of the
    index that it adds wait for theirs as any other.
    """
    return {
        "long_term": _heal_long_term(),
        "index": _heal_index(),
        "loops": _heal_loops(),
        "summaries": summaries_heal(),
    }


def _heal_long_term() -> int:
    healed, last = 0, 0
    while True:
        with transaction.atomic():
            missing = Event.objects.filter(long_term__isnull=True, pk__gt=last).order_by("pk")
            events = list(missing[:BATCH])
            long_term_store(events)
        if not events:
            return healed
        healed, last = healed + len(events), events[-1].pk


_UNINDEXED = """
SELECT entry.event_id FROM memory_longtermentry entry
WHERE entry.event_id > %s AND NOT EXISTS (
    SELECT 1 FROM memory_searchitem item
    WHERE item.agent_id = entry.agent_id AND item.persona = entry.persona
    AND item.item_type = 'event' AND item.item_id = entry.event_id::text)
ORDER BY entry.event_id LIMIT %s
"""


def _heal_index() -> int:
    healed, last = 0, 0
    while True:
        with transaction.atomic():
            found = [row[0] for row in sql_rows(_UNINDEXED, [last, BATCH])]
            entries = LongTermEntry.objects.select_related("event").filter(pk__in=found).order_by("pk")
            index_put(entry_of(entry) for entry in entries)
        if not found:
            return healed
        healed, last = healed + len(found), found[-1]


_UNCOUNTED = """
INSERT INTO memory_loopsummary (
    agent_id, persona, loop_id, summary, kind, visibility, long_term_ids, event_count, covered_events,
    first_event_at, last_event_at, closed_at, closed_by, project, task)
SELECT agent_id, persona, loop_id, '', min(kind), min(visibility), '{}', count(*), 0, min(ts), max(ts),
    CASE WHEN bool_or(kind = ANY(%s)) THEN %s::timestamptz END, CASE WHEN bool_or(kind = ANY(%s)) THEN %s ELSE '' END,
    max(project), max(task)
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
            by_output = LoopSummary.ClosedBy.OUTPUT.value
            made = sql_change(_UNCOUNTED, [closing, clock.now(), closing, by_output, BATCH])
        healed += made
        if made < BATCH:
            return healed
