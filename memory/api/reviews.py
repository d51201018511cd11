"""Reviews of memories over HTTP: agents may read their own, people resolve them."""

from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router

from memory.api.common import CHANGE_REFUSALS, REFUSALS, caller, keyset_page, row_of
from memory.schemas.reviews import ReviewOut, ReviewPage, ReviewResolveIn
from memory.services.reviews.records import REVIEW
from memory.services.reviews.resolve import review_resolve
from memory.services.reviews.undo import review_undo

router = Router()
VIEW = "memory.view_memoryreview"


@router.get("/reviews", response={200: ReviewPage, **REFUSALS}, summary="List reviews of memories")
def reviews_get(
    request: HttpRequest,
    agent: str = "",
    status: Literal["pending", "resolved", "expired", "all"] = "pending",
    kind: Literal["", "duplicate", "contradiction", "escalation", "low_confidence", "compaction", "relearned"] = "",
    limit: int = Query(50, ge=1, le=200),
    cursor: str = "",
) -> Any:
    """Questions about memories of the token's persona, latest first."""
    _, _, memory = caller(request, agent, VIEW)
    reviews = memory.reviews.select_related("old", "new")
    if status != "all":
        reviews = reviews.filter(status=status)
    if kind:
        reviews = reviews.filter(kind=kind)
    return keyset_page(reviews, moment="created_at", limit=limit, cursor=cursor)


@router.get("/reviews/{review_id}", response={200: ReviewOut, **REFUSALS}, summary="One review")
def review_get(request: HttpRequest, review_id: UUID, agent: str = "") -> Any:
    """What is asked, what it rests on, and the resolution once there is one."""
    _, _, memory = caller(request, agent, VIEW)
    return row_of(memory.reviews.select_related("old", "new"), review_id, "review")


@router.post(
    "/reviews/{review_id}/resolve", response={200: ReviewOut, **CHANGE_REFUSALS}, summary="Resolve a review (people)"
)
def review_resolve_post(request: HttpRequest, review_id: UUID, payload: ReviewResolveIn, agent: str = "") -> Any:
    """Only for people: no token resolves one, whatever its scopes."""
    _, by, memory = caller(request, agent, REVIEW)
    return review_resolve(review=row_of(memory.reviews, review_id, "review"), by=by, **payload.dict())


@router.post(
    "/reviews/{review_id}/undo", response={200: ReviewOut, **CHANGE_REFUSALS}, summary="Undo a resolution (people)"
)
def review_undo_post(request: HttpRequest, review_id: UUID, agent: str = "") -> Any:
    """The facts are restored as new changes, and the review is pending again."""
    _, by, memory = caller(request, agent, REVIEW)
    return review_undo(review=row_of(memory.reviews, review_id, "review"), by=by)
