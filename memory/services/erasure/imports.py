"""Erasure in import records: they keep only that a memory was erased, so that no later import restores it."""

from collections.abc import Mapping

from django.db.models import CharField, Q
from django.db.models.functions import Cast

from memory.models import Event, ImportedMemory, ItemType
from memory.services.erasure import Erasure

BLANK = {
    "source_id": "",
    "content_hash": "",
    "item_id": "",
    "earlier_item_ids": [],
    "file": "",
    "outcome": ImportedMemory.Outcome.ERASED,
}


def imports_erase(erasure: Erasure) -> Mapping[str, int]:
    """Blank the provenance of facts and documents that are erased, and of the events of a project that is.

    That of one whose source said something else since is blanked too: an older export would bring it back.
    """
    if erasure.of_agent:
        return {}
    gone = Q(pk__in=())
    for item_type, ids in erasure.items.items():
        gone |= Q(item_type=item_type) & (Q(item_id__in=ids) | Q(earlier_item_ids__overlap=ids))
    if erasure.project:
        events = Event.objects.filter(agent=erasure.agent, project=erasure.project)
        gone |= Q(item_type=ItemType.EVENT, item_id__in=events.values_list(Cast("pk", CharField())))
    count = ImportedMemory.objects.filter(gone, agent=erasure.agent).update(**BLANK)
    return {"importedmemory": count} if count else {}
