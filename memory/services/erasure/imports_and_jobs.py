"""Erasure in known sources, jobs and import records, which keep only that a memory was erased: no later import restores
it."""

from collections.abc import Mapping
from uuid import UUID

from django.db.models import CharField, Q
from django.db.models.functions import Cast

from identity.services.inbox_items import item_rows_erase
from memory.models import Document, Event, Fact, ImportedMemory, ItemType, Job, KnownSource, MemoryReview
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
    """Blank the provenance of facts and documents that are erased, and of the events of a project or user that is.

    That of one whose source said something else since is blanked too: an older export would bring it back.
    """
    if erasure.of_agent:
        return {}
    gone = Q(pk__in=())
    for item_type, ids in erasure.items.items():
        gone |= Q(item_type=item_type) & (Q(item_id__in=ids) | Q(earlier_item_ids__overlap=ids))
    if erasure.keys:
        events = Event.objects.filter(agent=erasure.agent, **erasure.keys)
        gone |= Q(item_type=ItemType.EVENT, item_id__in=events.values_list(Cast("pk", CharField())))
    count = ImportedMemory.objects.filter(gone, agent=erasure.agent).update(**BLANK)
    return {"importedmemory": count} if count else {}


def jobs_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete the jobs about an erased fact and about its reviews, and the inbox rows of those reviews.

    The reviews themselves and their audit records are erased with the fact, since comments and verdicts may contain the
    fact in other words. The jobs of an erased agent are deleted with the agent. Returns counts by table.
    """
    if not erasure.fact_ids:
        return {}
    keys = list(erasure.fact_ids)
    reviews = MemoryReview.objects.filter(Q(old__in=keys) | Q(new__in=keys) | Q(facts__overlap=keys))
    review_keys = [str(key) for key in reviews.values_list("pk", flat=True)]
    jobs = Job.objects.filter(subject_id__in=[*map(str, keys), *review_keys]).delete()[0]
    item_rows_erase([UUID(key) for key in review_keys])
    return {"job": jobs}


def sources_erase(erasure: Erasure) -> Mapping[str, int]:
    """Forget the sources of erased facts and documents, since their addresses may tell what they said."""
    of_facts = Fact.objects.filter(agent=erasure.agent, pk__in=erasure.fact_ids, source_ref__isnull=False)
    of_documents = Document.objects.filter(agent=erasure.agent, pk__in=erasure.document_ids, source_ref__isnull=False)
    locators = {memory.source_locator for rows in (of_facts, of_documents) for memory in rows}
    if not locators:
        return {}
    return {"knownsource": KnownSource.objects.filter(agent=erasure.agent, locator__in=locators).delete()[0]}
