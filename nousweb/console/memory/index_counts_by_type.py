"""Counts of an agent's rows in the search index, by type."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q

from context.feedback.figure_snapshots import LARGE_MEMORY, snapshot_of, snapshot_put
from memory.models import IndexStatus, ItemType, SearchItem, SearchStatistics
from memory.persona import PersonaMemory

NAME = "search index"
NONE: dict[str, Any] = {"total": 0, "ready": 0, "pending": 0, "failed": 0, "oldest": None}


def index_counts(
    view: PersonaMemory, collections: Iterable[SearchStatistics]
) -> tuple[list[dict[str, Any]], datetime | None]:
    """A row for each type of memory, and when the rows that are ready were counted last, if the memory is large.

    `collections` are all of the agent's. At most two statements, one for a memory that is not large.
    """
    large = sum(each.items for each in collections) >= LARGE_MEMORY
    snapshot = snapshot_of(NAME, view.agent.pk, both=len(view.personas) > 1) if large else None
    counted = _counted(view, waiting=snapshot is not None)
    if snapshot:
        for kind, ready in snapshot.value.items():
            row = counted.setdefault(kind, dict(NONE))
            row |= {"ready": ready, "total": ready + row["pending"] + row["failed"]}
    rows = [{"label": kind.label, **counted.get(kind.value, NONE)} for kind in ItemType]
    return rows, snapshot.at if snapshot else None


def index_counts_refresh(view: PersonaMemory) -> None:
    """Store the counts of rows of a large memory that are ready."""
    ready = {kind: row["ready"] for kind, row in _counted(view).items()}
    snapshot_put(NAME, view.agent.pk, ready, both=len(view.personas) > 1)


def _counted(view: PersonaMemory, *, waiting: bool = False) -> dict[str, dict[str, Any]]:
    """Count rows by type and state. With `waiting`, only rows that are not ready, which have an index."""
    rows = SearchItem.objects.filter(agent=view.agent, persona__in=view.personas).order_by()
    if waiting:
        rows = rows.filter(status__in=(IndexStatus.PENDING, IndexStatus.FAILED))
    counts = rows.values("item_type").annotate(
        total=Count("pk"),
        ready=Count("pk", filter=Q(status=IndexStatus.READY)),
        pending=Count("pk", filter=Q(status=IndexStatus.PENDING)),
        failed=Count("pk", filter=Q(status=IndexStatus.FAILED)),
        oldest=Min("recorded_at", filter=Q(status=IndexStatus.PENDING)),
    )
    return {row["item_type"]: {**row} for row in counts}
