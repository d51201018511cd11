"""The API of reviews of memories: agents may read their own, people resolve them."""

from typing import Any, Literal
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from memory.api.common import AnyReviewKind, Content, Remark, caller, list_page, row_of
from memory.api.facts import FactOut
from memory.models import MemoryReview
from memory.selectors.filters import ReviewFilter
from memory.services.reviews.blind_samples import as_if_undecided
from memory.services.reviews.quarantine_resolution import QUARANTINE_MODELS
from memory.services.reviews.resolve import review_resolve
from memory.services.reviews.states import REVIEW
from memory.services.reviews.undo import review_undo
from nousweb.lib.constrained_types import AgentSlug, PageCursor, PageLimit
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Derived, Input, page_of


class ReviewReasonOut(Schema):
    code: str
    words: str
    old: str = ""
    new: str = ""


class ReviewFactOut(
    Derived,
    of=FactOut,
    fields="id content subject category project task confidence source recorded_at valid_from valid_until",
):
    active: bool


class ReviewMemoryOut(Schema):
    type: str
    id: str


class ReviewOut(
    Derived,
    of=MemoryReview,
    fields="id persona kind status subject old new censor facts memories subjects score reasons verdict proposal"
    " resolution comment resolver_name resolved_at created_at expires_at",
):
    old: ReviewFactOut | None = Field(None, description="The older fact")
    new: ReviewFactOut | None = Field(None, description="The newer fact, or the only fact of the review")
    facts: list[UUID] = Field(
        [],
        description="Facts of a compaction or with values of one attribute, or the fact that was invalidated or is "
        "known about another subject",
    )
    memories: list[ReviewMemoryOut] = Field([], description="Of a quarantined text or a new memory")
    subjects: list[UUID] = Field([], description="The two subjects that may be the same, the older first")
    score: float | None = Field(description="Cosine of the pair, or the confidence of a single fact")
    reasons: list[ReviewReasonOut] = Field([], description="Differences between the two, most important first")
    verdict: dict[str, Any] = Field({}, description="The judge's verdict, if it was asked")
    proposal: str = ""
    resolution: str

    @staticmethod
    def resolve_memories(review: MemoryReview) -> list[dict[str, str]]:
        items = review.details.get("items", []) if review.kind in MemoryReview.ABOUT_TEXTS else []
        return [{"type": kind, "id": key} for kind, key in items]


class ReviewResolveIn(Input):
    resolution: str = Field(
        description="same, replace, old_wrong, new_wrong, both or merge of a pair; keep or reverse of a censor; same, "
        "both or new_wrong of a sentence about another subject; same or different of two subjects; allow or hold "
        "of a quarantined text or a new memory; replace (one value at a time) or both (several) of an attribute"
    )
    comment: Remark = ""
    content: Content = Field("", description="Text for a merge")


router = Router()
VIEW = "memory.view_memoryreview"


@router.get("/reviews", response={200: page_of(ReviewOut), **REFUSALS}, summary="List reviews of memories")
def reviews_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    status: Literal["pending", "resolved", "expired", "all"] = "pending",
    kind: AnyReviewKind = "",
    memory: str = Query("", max_length=100, description="Only those of the quarantined or new memory with this id"),
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Reviews of memories of the token's persona, latest first."""
    _, by, view = caller(request, agent, VIEW)
    reviews = view.reviews.asked_of(by).select_related("old", "new")
    reviews = ReviewFilter.narrow(reviews, status="" if status == "all" else status, kind=kind)
    if memory:
        named = Q(pk__in=[])
        for item_type in (*QUARANTINE_MODELS, "event"):
            named |= Q(details__items__contains=[[item_type, memory]])
        reviews = reviews.filter(named, kind__in=MemoryReview.ABOUT_TEXTS)
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
