"""The API of reviews of memories: agents may read their own, people resolve them."""

from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Router

from memory.api.common import CHANGE_REFUSALS, REFUSALS, caller, list_page, row_of
from memory.schemas.reviews import ReviewOut, ReviewResolveIn
from memory.schemas.types import AnyReviewKind
from memory.selectors.filters import ReviewFilter
from memory.services.reviews.blind_samples import as_if_undecided
from memory.services.reviews.resolve import review_resolve
from memory.services.reviews.states import REVIEW
from memory.services.reviews.undo import review_undo
from nousweb.lib.constrained_types import AgentSlug, PageCursor, PageLimit
from nousweb.lib.schemas import page_of

router = Router()
VIEW = "memory.view_memoryreview"


@router.get("/reviews", response={200: page_of(ReviewOut), **REFUSALS}, summary="List reviews of memories")
def reviews_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    status: Literal["pending", "resolved", "expired", "all"] = "pending",
    kind: AnyReviewKind = "",
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Reviews of memories of the token's persona, latest first."""
    _, by, memory = caller(request, agent, VIEW)
    reviews = memory.reviews.asked_of(by).select_related("old", "new")
    reviews = ReviewFilter.narrow(reviews, status="" if status == "all" else status, kind=kind)
    page = list_page(reviews, moment="created_at", limit=limit, cursor=cursor)
    return page | {"items": [as_if_undecided(review) for review in page["items"]]}


@router.get("/reviews/{review_id}", response={200: ReviewOut, **REFUSALS}, summary="One review")
def review_get(request: HttpRequest, review_id: UUID, agent: AgentSlug = "") -> Any:
    """One review with its facts and reasons, and its resolution once there is one."""
    _, by, memory = caller(request, agent, VIEW)
    return as_if_undecided(row_of(memory.reviews.asked_of(by).select_related("old", "new"), review_id, "review"))


@router.post(
    "/reviews/{review_id}/resolve", response={200: ReviewOut, **CHANGE_REFUSALS}, summary="Resolve a review (people)"
)
def review_resolve_post(request: HttpRequest, review_id: UUID, payload: ReviewResolveIn, agent: AgentSlug = "") -> Any:
    """Only for people: no token can resolve a review, whatever its scopes."""
    _, by, memory = caller(request, agent, REVIEW)
    return review_resolve(review=row_of(memory.reviews.asked_of(by), review_id, "review"), by=by, **payload.dict())


@router.post(
    "/reviews/{review_id}/undo", response={200: ReviewOut, **CHANGE_REFUSALS}, summary="Undo a resolution (people)"
)
def review_undo_post(request: HttpRequest, review_id: UUID, agent: AgentSlug = "") -> Any:
    """The facts are restored as new changes, and the review is pending again."""
    _, by, memory = caller(request, agent, REVIEW)
    return review_undo(review=row_of(memory.reviews.asked_of(by), review_id, "review"), by=by)
