"""What the lifecycle erases with a fact: the questions about it, which quote it, and the runs that were about it."""

from collections.abc import Mapping

from django.db.models import Q

from memory.models import LifecycleRun, MemoryReview
from memory.services.erasure import Erasure, audit_blank


def questions_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete the questions that name an erased fact, and the runs about these; a whole agent's go with the agent."""
    if erasure.of_agent:
        return {}
    keys = list(erasure.fact_ids)
    reviews = MemoryReview.objects.filter(Q(old__in=keys) | Q(new__in=keys) | Q(facts__overlap=keys))
    asked = [str(key) for key in reviews.values_list("pk", flat=True)]
    runs = LifecycleRun.objects.filter(subject_id__in=[*map(str, keys), *asked]).delete()[0]
    # What somebody or a judge said when they answered may tell of the fact in other words.
    blanked = audit_blank(Q(object_type="memoryreview", object_id__in=asked))
    return {"memoryreview": reviews.delete()[0], "lifecyclerun": runs, "auditevent": blanked}
