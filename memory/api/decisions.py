"""The API of decisions."""

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Status
from pydantic import Field

from memory.api.common import (
    AnyDecisionOutcome,
    AnyStakes,
    AnyTrust,
    Content,
    DecisionOutcome,
    MemoryIn,
    MemoryOut,
    MemoryPatch,
    RemarkEntry,
    RequiredContent,
    Stakes,
    caller,
    memory_arguments,
    memory_page,
    memory_row,
)
from memory.models import Decision
from memory.policy import MAX_REASONS
from memory.selectors.filters import DecisionFilter
from memory.services.decisions import decision_record, decision_review, decision_update
from nousweb.lib import Invalid
from nousweb.lib.constrained_types import (
    AgentSlug,
    AnyProject,
    AnyTask,
    AnyUser,
    OptionalWord,
    PageCursor,
    PageLimit,
    ProjectKey,
    TaskKey,
    UnitInterval,
    UserKey,
)
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Input, optional, page_of


class DecisionIn(MemoryIn):
    description: RequiredContent = Field(description="The decision")
    context: Content = Field("", description="Situation of the decision")
    category: OptionalWord = ""
    confidence: UnitInterval = 0.5
    stakes: Stakes = "medium"
    reasons: Annotated[list[RemarkEntry], Field(max_length=MAX_REASONS)] = []
    project: ProjectKey | None = Field(  # type: ignore[assignment]
        None, description="Your key of the project; by default the episode's"
    )
    task: TaskKey | None = Field(  # type: ignore[assignment]
        None, description="Your key of the task; by default the episode's"
    )
    user: UserKey | None = Field(  # type: ignore[assignment]
        None, description="Your key of the user, \"*\" for everybody; by default the episode's, else the token's"
    )
    episode: UUID | None = Field(None, description="Episode of the decision")


class DecisionPatch(MemoryPatch, of=DecisionIn, fields="category", patch=True):
    """Fields that are left out stay as they are."""

    active: bool = optional("Whether search and prompts may include it")


class DecisionReviewIn(Input):
    outcome: DecisionOutcome
    note: Content = ""


class DecisionOut(
    MemoryOut,
    of=Decision,
    fields="description context category confidence stakes reasons episode outcome outcome_note reviewed_at"
    " reviewed_by created_at updated_at",
): ...


router = Router()


@router.post("/decisions", response={201: DecisionOut, **REFUSALS}, summary="Record a decision")
def decisions_post(request: HttpRequest, payload: DecisionIn, agent: AgentSlug = "") -> Any:
    """A choice with the confidence, the stakes and the reasons it was made with."""
    found, by, memory = caller(request, agent, "memory.add_decision")
    given = payload.dict()
    key = given.pop("episode")
    episode = memory.episodes.filter(pk=key).first() if key else None
    if key and episode is None:
        raise Invalid("There is no such episode in this memory.", field="episode")
    return Status(201, decision_record(agent=found, by=by, episode=episode, **given))


@router.get("/decisions", response={200: page_of(DecisionOut), **REFUSALS}, summary="List decisions")
def decisions_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    q: str = Query("", max_length=200, description="Words in the description or the context"),
    outcome: AnyDecisionOutcome = "",
    stakes: AnyStakes = "",
    category: str = "",
    tag: str = "",
    project: AnyProject = "",
    task: AnyTask = "",
    user: AnyUser = "",
    trust: AnyTrust = "",
    unreviewed: bool = Query(False, description="Only decisions without a review"),
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Decisions of the token's persona, latest first."""
    return memory_page(
        request,
        agent,
        Decision,
        DecisionFilter,
        limit=limit,
        cursor=cursor,
        q=q,
        outcome=outcome,
        stakes=stakes,
        category=category,
        tag=tag,
        project=project,
        task=task,
        user=user,
        trust=trust,
        review="open" if unreviewed else "all",
    )


@router.get("/decisions/{decision_id}", response={200: DecisionOut, **REFUSALS}, summary="One decision")
def decision_get(request: HttpRequest, decision_id: UUID, agent: AgentSlug = "") -> Any:
    """One decision as it was recorded, with its review. Answers 404 for one of another agent or persona."""
    return memory_row(request, agent, "view", Decision, decision_id)[0]


@router.post(
    "/decisions/{decision_id}/review", response={200: DecisionOut, **CHANGE_REFUSALS}, summary="Review a decision"
)
def decision_review_post(
    request: HttpRequest, decision_id: UUID, payload: DecisionReviewIn, agent: AgentSlug = ""
) -> Any:
    """Record the outcome; a decision may be reviewed again, and the audit trail keeps each review."""
    return decision_review(**memory_arguments(request, agent, "change", Decision, decision_id), **payload.dict())


@router.patch(
    "/decisions/{decision_id}", response={200: DecisionOut, **CHANGE_REFUSALS}, summary="Recategorise a decision"
)
def decision_patch(request: HttpRequest, decision_id: UUID, payload: DecisionPatch, agent: AgentSlug = "") -> Any:
    """Change category, tags, scope or importance, or whether search shows it."""
    return decision_update(
        **memory_arguments(request, agent, "change", Decision, decision_id), **payload.dict(exclude_unset=True)
    )
