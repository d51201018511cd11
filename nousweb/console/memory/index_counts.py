"""How much of an agent's memory is in the search index, by type."""

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
    """A row for each type of memory; of a large memory those that are ready are as they were counted last, and when.

    `collections` are all of the agent's. At most two statements, one of a memory that is not large.
    """
    large = sum(each.items for each in collections) >= LARGE_MEMORY
    kept = snapshot_of(NAME, view.agent.pk, both=len(view.personas) > 1) if large else None
    counted = _counted(view, waiting=kept is not None)
    if kept:
        for kind, ready in kept.value.items():
            row = counted.setdefault(kind, dict(NONE))
            row |= {"ready": ready, "total": ready + row["pending"] + row["failed"]}
    rows = [{"label": kind.label, **counted.get(kind.value, NONE)} for kind in ItemType]
    return rows, kept.at if kept else None


def index_counts_keep(view: PersonaMemory) -> None:
    """Count what is ready of a large memory for the pages to come."""
    ready = {kind: row["ready"] for kind, row in _counted(view).items()}
    snapshot_put(NAME, view.agent.pk, ready, both=len(view.personas) > 1)


def _counted(view: PersonaMemory, *, waiting: bool = False) -> dict[str, dict[str, Any]]:
    """By type how many rows there are in which state, or those alone that are not ready, which have an index."""
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
