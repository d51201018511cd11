"""Prompts as they would be with what waits for consent."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from memory.models import LongTermEntry, MemoryReview, Trust
from memory.persona import PersonaMemory
from memory.services.reviews.quarantine_resolution import QUARANTINE_MODELS, put_to_use
from memory.services.search_index.writer import index_put
from memory.types import entry_of

MAX_REVIEWS = 200


@contextmanager
def pending_used_in_dry_run(view: PersonaMemory) -> Iterator[None]:
    """Context manager: use what waits for consent in this view, of the latest MAX_REVIEWS reviews, as if a person had
    allowed it, in a transaction that is rolled back (dry run). Only this connection sees it. A search finds it by its
    words alone."""
    waiting = MemoryReview.objects.pending().filter(
        agent=view.agent, persona__in=view.personas, kind=MemoryReview.Kind.NEW_MEMORY, details__codes=["consent"]
    )
    with transaction.atomic():
        for items in waiting.order_by("-created_at").values_list("details__items", flat=True)[:MAX_REVIEWS]:
            for kind, key in items:
                if kind == "event":
                    for entry in LongTermEntry.objects.select_related("event").filter(agent=view.agent, event=int(key)):
                        entry.origin, entry.quarantined = Trust.PERSON.value, False
                        entry.save(update_fields=["origin", "quarantined"])
                        index_put([entry_of(entry)])
                elif row := QUARANTINE_MODELS[kind]._default_manager.filter(agent=view.agent, pk=key).first():
                    row.origin = Trust.PERSON.value  # type: ignore[attr-defined]
                    row.save(update_fields=["origin"])
                    put_to_use(row)
        try:
            yield
        finally:
            transaction.set_rollback(True)
