"""Erase jobs with a fact: those about the fact and about its reviews."""

from collections.abc import Mapping
from uuid import UUID

from django.db.models import Q

from identity.services.inbox_items import item_rows_erase
from memory.models import Job, MemoryReview
from memory.services.erasure import Erasure


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
