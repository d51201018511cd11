"""The queue of reviews that a person works through: what is in it, and what comes next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse

from identity.models import Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import MemoryReview
from memory.models.reviews import MemoryReviewQuerySet
from memory.selectors.filters import ReviewFilter
from memory.services.reviews.records import REVIEW

Kind = MemoryReview.Kind
Status = MemoryReview.Status
QUEUE_LIMIT = 1_000
STATUSES = {"pending": "Waiting", "decided": "Answered"}


@dataclass(frozen=True, slots=True)
class ReviewQueue:
    """Which reviews are worked through; it lives in the address."""

    status: str = "pending"
    agent: str = ""
    kind: str = ""

    @classmethod
    def of(cls, request: HttpRequest) -> "ReviewQueue":
        status, kind = request.GET.get("status", ""), request.GET.get("kind", "")
        return cls(
            status if status in STATUSES else "pending",
            request.GET.get("agent", "").replace("\x00", "")[:50],
            kind if kind in Kind.values else "",
        )

    def query(self, **extra: str) -> str:
        values = {"status": self.status if self.status != "pending" else "", "agent": self.agent, "kind": self.kind}
        return urlencode({name: value for name, value in (values | extra).items() if value})

    @property
    def is_filtered(self) -> bool:
        return bool(self.agent or self.kind)

    def filtered(self, reviews: MemoryReviewQuerySet) -> MemoryReviewQuerySet:
        return ReviewFilter.narrow(reviews, agent=self.agent, kind=self.kind)

    def rows(self, by: Principal) -> MemoryReviewQuerySet:
        reviews = self.filtered(visible_reviews(by))
        if self.status == "pending":
            return reviews.pending().order_by("created_at", "id")
        return reviews.exclude(status=Status.PENDING).order_by("-resolved_at", "id")

    def url(self, **extra: str) -> str:
        query = self.query(**extra)
        return f"{reverse('memory_review')}?{query}" if query else reverse("memory_review")


def visible_reviews(by: Principal) -> MemoryReviewQuerySet:
    """The reviews that this person may know of."""
    reviews = MemoryReview.objects.all()
    return reviews if by.may(VIEW_SUBCONSCIOUS) else reviews.filter(persona=Persona.ACTOR)


def queue_place(queue: ReviewQueue, by: Principal, pk: UUID) -> dict[str, Any]:
    """Where a review stands in the queue, and the ids of its neighbours; `following` is the one to go on with."""
    keys = list(queue.rows(by).values_list("pk", flat=True)[:QUEUE_LIMIT])
    at = keys.index(pk) if pk in keys else None
    following = (
        keys[at + 1] if at is not None and at + 1 < len(keys) else next((key for key in keys if key != pk), None)
    )
    return {
        "place": None if at is None else at + 1,
        "total": len(keys),
        "previous": keys[at - 1] if at else None,
        "next": keys[at + 1] if at is not None and at + 1 < len(keys) else None,
        "following": following,
    }


def undo_offer(request: HttpRequest, by: Principal, queue: ReviewQueue) -> dict[str, Any] | None:
    """What was just resolved, as the address says, and where it can be undone."""
    for name, url_name in (("batch", "memory_review_batch_undo"), ("done", "memory_review_undo")):
        keys = uuids_of([request.GET.get(name, "")])
        if not keys:
            continue
        field = "batch" if name == "batch" else "pk"
        found = list(visible_reviews(by).filter(status=Status.RESOLVED, **{field: keys[0]})[:201])
        if not found:
            return None
        return {
            "word": found[0].get_resolution_display(),
            "what": str(found[0]) if len(found) == 1 else f"{len(found)} reviews",
            "url": f"{reverse(url_name, args=[keys[0]])}?{queue.query()}" if by.may(REVIEW) else "",
            "many": len(found) > 1,
        }
    return None


def uuids_of(values: Sequence[str]) -> list[UUID]:
    """Those of the values that are ids."""
    keys = []
    for value in values:
        try:
            keys.append(UUID(value))
        except ValueError:
            continue
    return keys
