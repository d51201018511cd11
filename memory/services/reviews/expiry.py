"""Close reviews that were not resolved in time, or that have nothing left to decide."""

from collections import defaultdict
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from identity.models import Persona
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.models import MemoryReview
from memory.services.reviews.records import resolution_record
from memory.services.reviews.settling import ENDED
from nousweb.lib import clock

MAX_CLOSED = 500
"""Maximum number per persona and call, so that a backlog of one persona does not delay the other."""


@transaction.atomic
def reviews_expire(*, by: Principal) -> int:
    """Close reviews that were not resolved in time, and those whose facts were retired elsewhere or have ended.

    Returns how many.
    """
    now = clock.now()
    settled = Q(old__active=False) | Q(new__active=False) | Q(censor__active=False)
    settled |= Q(old__valid_until__lte=now) | Q(new__valid_until__lte=now)
    settled &= Q(details__blind__isnull=True)
    pending, undecided = Q(status=MemoryReview.Status.PENDING), Q(status=MemoryReview.Status.UNDECIDED)
    ended = pending & Q(expires_at__lte=now) | (pending | undecided) & settled
    over = MemoryReview.objects.filter(ended).order_by("created_at")
    found: dict[int, list[UUID]] = defaultdict(list)
    for persona in Persona.values:
        for agent_id, key in over.filter(persona=persona).values_list("agent", "pk")[:MAX_CLOSED]:
            found[agent_id].append(key)
    free = over.select_related("agent").select_for_update(of=("self",), skip_locked=True)
    reviews = [review for agent_id, keys in found.items() for review in free.filter(agent=agent_id, pk__in=keys)]
    for review in reviews:
        if review.status == MemoryReview.Status.PENDING and review.expires_at <= now:
            review.status = MemoryReview.Status.EXPIRED
            review.resolved_at = now
            review.save(update_fields=["status", "resolved_at"])
            audit_record(
                by=by, action="memory_review.expire", target=review, agent=review.agent, after={"status": review.status}
            )
        else:
            resolution_record(
                review,
                MemoryReview.Resolution.MOOT,
                by,
                comment=ENDED,
            )
    return len(reviews)
