"""What the lifecycle erases with a fact: the jobs that were about it and about the reviews that name it."""

from collections.abc import Mapping
from uuid import UUID

from django.db.models import Q

from identity.services.inbox_items import item_rows_erase
from memory.models import Job, MemoryReview
from memory.services.erasure import Erasure


def questions_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete the jobs about an erased fact and the reviews that name it; a whole agent's go with the agent.

    The reviews themselves go with the fact, together with what the audit trail says of them: what somebody or a
    judge answered may tell of the fact in other words. So may what people said to each other about a review.
    """
    if not erasure.fact_ids:
        return {}
    keys = list(erasure.fact_ids)
    reviews = MemoryReview.objects.filter(Q(old__in=keys) | Q(new__in=keys) | Q(facts__overlap=keys))
    asked = [str(key) for key in reviews.values_list("pk", flat=True)]
    runs = Job.objects.filter(subject_id__in=[*map(str, keys), *asked]).delete()[0]
    item_rows_erase([UUID(key) for key in asked])
    return {"lifecyclerun": runs}
