"""The API of subjects: agents read their own, people rename, merge and split them."""

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Status
from pydantic import Field

from identity.models import Agent
from memory.api.common import ReasonIn, caller, list_page, row_of
from memory.models import MAX_SPELLING_CHARACTERS, Subject, SubjectAlias, SubjectChange
from memory.persona import PersonaMemory
from memory.policy import MAX_FACTS_OF_SPLIT
from memory.selectors import subjects_shown
from memory.selectors.filters import SubjectFilter
from memory.services.subjects.changes import (
    subject_alias_add,
    subject_change_undo,
    subject_create,
    subject_edit,
    subject_merge,
    subject_split,
)
from memory.services.subjects.registry import CHANGE, VIEW
from nousweb.lib.constrained_types import AgentSlug, OneOf, PageCursor, PageLimit, text
from nousweb.lib.schemas import CHANGE_REFUSALS, REFUSALS, Derived, Input, optional, page_of

SubjectKind = Annotated[str, OneOf(*Subject.Kind.values)]
AnySubjectKind = Annotated[str, OneOf("", *Subject.Kind.values)]
Spelling = Annotated[str, text(MAX_SPELLING_CHARACTERS, min_length=1)]


class SubjectAliasOut(Derived, of=SubjectAlias, fields="id spelling"):
    origin: Annotated[str, OneOf(*SubjectAlias.Origin.values)] = Field(
        description="seen: in a fact; given: by a person"
    )


class SubjectOut(Derived, of=Subject, fields="id persona name kind is_user aliases facts merged_into created_at"):
    is_user: bool = Field(description="Whether it is the user of the agent")
    aliases: list[SubjectAliasOut] = Field(description="All its spellings, the oldest first")
    facts: int = Field(description="Number of active facts about it")
    merged_into: UUID | None = Field(None, alias="merged_into_id", description="The subject that it was merged into")


SOLE_USER = "Whether it is the user of the agent; a memory has one user, so this replaces the previous one"


class SubjectIn(Input):
    name: Spelling
    kind: SubjectKind = "other"
    is_user: bool = Field(False, description=SOLE_USER)


class SubjectPatch(ReasonIn, of=SubjectIn, fields="name kind is_user", patch=True):
    """Fields that are left out stay as they are."""

    is_user: bool = optional(SOLE_USER)


class SubjectAliasIn(ReasonIn):
    spelling: Spelling = Field(description="New spelling of this subject")


class SubjectMergeIn(ReasonIn):
    into: UUID = Field(description="The subject that gets all spellings")


class SubjectSplitIn(ReasonIn):
    aliases: list[UUID] = Field([], max_length=200, description="Spellings of the other subject")
    facts: list[UUID] = Field(
        [], max_length=MAX_FACTS_OF_SPLIT, description="Facts about another subject with the same name"
    )
    name: Annotated[str, text(MAX_SPELLING_CHARACTERS)] = Field(
        "", description="Name of the other subject; required for facts"
    )


class SubjectUndoIn(ReasonIn):
    change: UUID = Field(description="Id of a change in the history")


class SubjectChangeOut(
    Derived, of=SubjectChange, fields="id at action summary other author_kind author_name reason undone_at"
):
    summary: str = Field(description="Summary of the change, in one sentence")
    other: UUID | None = Field(None, alias="other_id", description="The other subject of a merge or a split")
    author_kind: str


router = Router()


@router.get("/subjects", response={200: page_of(SubjectOut), **REFUSALS}, summary="List subjects")
def subjects_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    q: str = Query("", max_length=200, description="Words in a spelling"),
    kind: AnySubjectKind = "",
    is_user: bool | None = None,
    limit: PageLimit = 50,
    cursor: PageCursor = "",
) -> Any:
    """Subjects of the facts of the token's persona, the latest named first, with all spellings."""
    _, memory = _caller(request, agent)
    subjects = SubjectFilter.narrow(subjects_shown(memory), q=q, kind=kind)
    if is_user is not None:
        subjects = subjects.filter(is_user=is_user)
    return list_page(subjects, moment="created_at", limit=limit, cursor=cursor)


@router.post("/subjects", response={201: SubjectOut, **CHANGE_REFUSALS}, summary="Enter a subject (people)")
def subjects_post(request: HttpRequest, payload: SubjectIn, agent: AgentSlug = "") -> Any:
    """Add a subject before any fact names it. Answers 409 if the name belongs to a known subject."""
    found, by, memory = caller(request, agent, CHANGE)
    return Status(201, _shown(memory, subject_create(agent=found, by=by, **payload.dict()).pk))


@router.get("/subjects/{subject_id}", response={200: SubjectOut, **REFUSALS}, summary="One subject")
def subject_get(request: HttpRequest, subject_id: UUID, agent: AgentSlug = "") -> Any:
    """One subject, also one that has been merged into another. Answers 404 for one of another agent or persona."""
    _, memory = _caller(request, agent)
    return _shown(memory, subject_id)


@router.patch(
    "/subjects/{subject_id}", response={200: SubjectOut, **CHANGE_REFUSALS}, summary="Change a subject (people)"
)
def subject_patch(request: HttpRequest, subject_id: UUID, payload: SubjectPatch, agent: AgentSlug = "") -> Any:
    """Its name, its kind, and whether it is the user, whom at most one subject of a persona is."""
    _, by, memory = caller(request, agent, CHANGE)
    subject_edit(subject=_row(memory, subject_id), by=by, **payload.dict(exclude_unset=True))
    return _shown(memory, subject_id)


@router.post(
    "/subjects/{subject_id}/aliases", response={200: SubjectOut, **CHANGE_REFUSALS}, summary="Add a spelling (people)"
)
def subject_alias_post(request: HttpRequest, subject_id: UUID, payload: SubjectAliasIn, agent: AgentSlug = "") -> Any:
    """Answers 409 if the spelling belongs to another subject: merge the two instead."""
    _, by, memory = caller(request, agent, CHANGE)
    subject_alias_add(subject=_row(memory, subject_id), by=by, **payload.dict())
    return _shown(memory, subject_id)


@router.post(
    "/subjects/{subject_id}/merge", response={200: SubjectChangeOut, **CHANGE_REFUSALS}, summary="Merge (people)"
)
def subject_merge_post(request: HttpRequest, subject_id: UUID, payload: SubjectMergeIn, agent: AgentSlug = "") -> Any:
    """Every spelling of this subject becomes one of another; answers with the change, by which it can be undone."""
    _, by, memory = caller(request, agent, CHANGE)
    subject, into = _row(memory, subject_id), _row(memory, payload.into)
    return subject_merge(subject=subject, into=into, by=by, reason=payload.reason)


@router.post(
    "/subjects/{subject_id}/split", response={200: SubjectChangeOut, **CHANGE_REFUSALS}, summary="Split (people)"
)
def subject_split_post(request: HttpRequest, subject_id: UUID, payload: SubjectSplitIn, agent: AgentSlug = "") -> Any:
    """Moves some spellings or facts to another subject, which is `other` of the change."""
    _, by, memory = caller(request, agent, CHANGE)
    return subject_split(subject=_row(memory, subject_id), by=by, **payload.dict())


@router.get(
    "/subjects/{subject_id}/history",
    response={200: page_of(SubjectChangeOut, "SubjectHistory"), **REFUSALS},
    summary="What happened to a subject",
)
def subject_history(
    request: HttpRequest, subject_id: UUID, agent: AgentSlug = "", limit: PageLimit = 50, cursor: PageCursor = ""
) -> Any:
    """Every change of a subject with who made it and why, latest first."""
    found, memory = _caller(request, agent)
    changes = SubjectChange.objects.filter(agent=found, subject=_row(memory, subject_id))
    return list_page(changes, moment="at", limit=limit, cursor=cursor)


@router.post(
    "/subjects/{subject_id}/undo", response={200: SubjectChangeOut, **CHANGE_REFUSALS}, summary="Undo (people)"
)
def subject_undo_post(request: HttpRequest, subject_id: UUID, payload: SubjectUndoIn, agent: AgentSlug = "") -> Any:
    """Undo a merge, a split, a spelling or an edit of this subject, as a change of its own."""
    found, by, memory = caller(request, agent, CHANGE)
    changes = SubjectChange.objects.filter(agent=found, subject=_row(memory, subject_id))
    return subject_change_undo(change=row_of(changes, payload.change, "change"), by=by, reason=payload.reason)


def _caller(request: HttpRequest, slug: str) -> tuple[Agent, PersonaMemory]:
    """The agent with the memory that the caller may read. The registry holds what facts of all projects are about."""
    found, by, memory = caller(request, slug, VIEW)
    by.require_all_projects()
    return found, memory


def _row(memory: PersonaMemory, key: UUID) -> Subject:
    return row_of(memory.rows(Subject).select_related("agent"), key, "subject")


def _shown(memory: PersonaMemory, key: UUID) -> Subject:
    return row_of(subjects_shown(memory, merged=True), key, "subject")
