"""The queue of reviews: its items, and the next one."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from identity.principal import Principal
from memory.models import MemoryReview
from memory.models.reviews import MemoryReviewQuerySet
from memory.selectors import visible_reviews
from memory.selectors.filters import ReviewFilter
from nousweb.console.common.inbox_filter import InboxFilter, place_among
from nousweb.console.common.inbox_query import QUEUE_LIMIT, InboxPlace
from nousweb.console.common.inbox_query import REVIEW as REVIEW_TYPE

Kind = MemoryReview.Kind
Status = MemoryReview.Status
STATUSES = {"pending": "Pending", "decided": "Resolved"}


@dataclass(frozen=True)
class ReviewQueue(InboxFilter):
    """The filter of the inbox for pages about reviews: all reviews, by default."""

    view: str = "questions"

    @property
    def is_decided(self) -> bool:
        return self.view == "questions" and self.status == "decided"

    def filtered(self, reviews: MemoryReviewQuerySet) -> MemoryReviewQuerySet:
        return ReviewFilter.narrow(reviews, agent=self.agent, kind=self.kind)

    def decided(self, by: Principal) -> MemoryReviewQuerySet:
        """The reviews that were answered or have expired, the latest first."""
        decided = self.filtered(visible_reviews(by)).filter(status__in=(Status.RESOLVED, Status.EXPIRED))
        return decided.order_by("-resolved_at", "id")

    def keys(self, by: Principal) -> list[tuple[str, UUID]]:
        if not self.is_decided:
            return InboxFilter.keys(self, by)
        return [(REVIEW_TYPE, key) for key in self.decided(by).values_list("pk", flat=True)[:QUEUE_LIMIT]]

    def position(self, pk: UUID, by: Principal) -> InboxPlace:
        return place_among(self.keys(by), pk) if self.is_decided else InboxFilter.position(self, pk, by)


def reviews_of(keys: Sequence[UUID]) -> list[MemoryReview]:
    """The reviews with these keys and their objects, in this order; missing ones are left out."""
    rows = MemoryReview.objects.filter(pk__in=keys).select_related("agent", "old", "new", "censor")
    found = {review.pk: review for review in rows}
    return [found[key] for key in keys if key in found]


def review_title(review: MemoryReview) -> str:
    """The title of a review, with the words in question."""
    if review.censor is not None:
        return str(review.censor)
    if review.new is not None:
        return review.new.content
    if review.kind == Kind.SAME_SUBJECT:
        return f"{review.reasons[0]['old'] if review.reasons else 'A subject'} and {review.subject}"
    if review.kind == Kind.REPEATED:
        return review.proposal
    if review.kind == Kind.HELD:
        return f"Quarantined: a text that reads like an instruction to the agent ({review.subject})"
    if review.kind == Kind.ATTRIBUTE:
        return str(review.reasons[0]["words"])
    number = len(review.facts)
    return f"{number} fact{'' if number == 1 else 's'} about {review.subject}"


def uuids_of(values: Sequence[str]) -> list[UUID]:
    """The values that are valid ids."""
    keys = []
    for value in values:
        try:
            keys.append(UUID(value))
        except ValueError:
            continue
    return keys
