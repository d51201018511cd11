"""Shared helpers, types and fields of the memory API; memory/policy/__init__.py has their limits."""

from typing import Annotated, Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from ninja import Query
from pydantic import AwareDatetime, Field

from identity.models import Agent, Persona
from identity.principal import Principal
from identity.selectors import agent_called
from memory.models import Censor, Decision, Episode, ItemType, Job, MemoryReview, Scope, Trust
from memory.persona import PersonaMemory, memory_of
from memory.policy import (
    MAX_CONTENT_CHARACTERS,
    MAX_DETAIL_CHARACTERS,
    MAX_LOCATOR_CHARACTERS,
    MAX_PROJECTS,
    MAX_REMARK_CHARACTERS,
    MAX_TTL_SECONDS,
)
from memory.selectors.filters import MemoryFilter
from nousweb.lib import existing
from nousweb.lib.bounds import MAX_TAGS
from nousweb.lib.constrained_types import OneOf, ProjectKey, TaskKey, UnitInterval, UserKey, entry, text
from nousweb.lib.keyset_page import keyset_page
from nousweb.lib.schemas import Derived, Input, optional

Row = TypeVar("Row", bound=Model)


def caller(request: HttpRequest, slug: str, permission: str) -> tuple[Agent, Principal, PersonaMemory]:
    """The agent that a call is about, who calls, and the memory that this caller may read; the right is checked."""
    agent, by = agent_called(request, slug, permission)
    return agent, by, memory_of(agent, by, include_quarantined=True)


def agent_arguments(request: HttpRequest, slug: str, *permission: str) -> dict[str, Any]:
    """The agent that a call is about and who calls, as services take them; the right is checked."""
    agent, by = agent_called(request, slug, *permission)
    return {"agent": agent, "by": by}


def row_of(rows: QuerySet[Row], key: object, noun: str) -> Row:
    """The row with the primary key `key`. Raises NotFound, also for one that this view does not show."""
    return existing(rows.filter(pk=key).first(), f"There is no such {noun}.")


def memory_row(request: HttpRequest, slug: str, action: str, model: type[Row], key: object) -> tuple[Row, Principal]:
    """One memory that the caller may read, and who calls; the right to `action` (such as "view") is checked.

    Raises NotFound, also for a memory of another agent or persona.
    """
    _, by, memory = caller(request, slug, f"memory.{action}_{model._meta.model_name}")
    return row_of(memory.rows(model).select_related("agent"), key, str(model._meta.verbose_name)), by


def memory_arguments(request: HttpRequest, slug: str, action: str, model: type[Model], key: object) -> dict[str, Any]:
    """What `memory_row` finds, as the services that change a memory of this type take it."""
    row, by = memory_row(request, slug, action, model, key)
    return {str(model._meta.model_name): row, "by": by}


def list_page(
    rows: QuerySet[Row], *, moment: str, limit: int, cursor: str, latest_first: bool = True, key: str = "id"
) -> dict[str, Any]:
    """One keyset page as the API answers it. Raises Invalid for a foreign cursor."""
    page = keyset_page(rows, moment=moment, size=limit, after=cursor, latest_first=latest_first, key=key)
    return {"items": page.rows, "next": page.next or None}


def memory_page(
    request: HttpRequest,
    slug: str,
    model: type[Model],
    filters: type[MemoryFilter],
    *,
    limit: int,
    cursor: str,
    moment: str = "created_at",
    **values: Any,
) -> dict[str, Any]:
    """A page of the memories of one type that the caller may read, narrowed by these values of `filters`."""
    _, _, memory = caller(request, slug, f"memory.view_{model._meta.model_name}")
    return list_page(filters.narrow(memory.rows(model), **values), moment=moment, limit=limit, cursor=cursor)


PersonaName = Annotated[str, OneOf(*Persona.values)]
ScopeName = Annotated[str, OneOf(*Scope.values), Field(description="Scope of the memory")]
ItemTypeName = Annotated[str, OneOf(*ItemType.values)]
EpisodeOutcome = Annotated[str, OneOf(*Episode.Outcome.values)]
SummaryKind = Annotated[str, OneOf(*Episode.SummaryKind.values)]
DecisionOutcome = Annotated[str, OneOf(*Decision.Outcome.values)]
Stakes = Annotated[str, OneOf(*Decision.Stakes.values)]
CensorMatch = Annotated[str, OneOf(*Censor.Match.values)]
Severity = Annotated[str, OneOf(*Censor.Severity.values)]

TRUST = "Trust class: the least trusted of its sources; person after a person has allowed it"
TrustName = Annotated[str, OneOf(*Trust.values), Field(description=TRUST)]
ORIGIN = (
    "Where the words come from; it can lower the trust class and never raise it. Without it, the class follows from "
    "the writer and the named sources"
)
Origin = Annotated[str, OneOf("", *Trust.values), Field(description=ORIGIN)]
AnyTrust = Annotated[str, OneOf("", *Trust.values), Field(description="Only memories of this trust class")]
Quarantined = Annotated[bool, Field(description="Quarantined: not in prompts or searches until a person allows it")]

Pending = Annotated[bool, Field(description="Of a new memory: it waits for consent alone; its `review` tells the end")]
AskedIn = Annotated[UUID | None, Field(description="Of a new memory: the review by which people are asked about it")]

# What a search shows of others' projects.
INCLUDED_PROJECTS = "Other projects whose memory is included too, without their tasks"
INCLUDE_PROJECT = Query([], max_length=MAX_PROJECTS, description=INCLUDED_PROJECTS)
IncludedProjects = Annotated[list[ProjectKey], Field(max_length=MAX_PROJECTS, description=INCLUDED_PROJECTS)]
AllProjects = Annotated[bool, Field(description="Include the memory of every project and task")]

# Of filters, where nothing said lets everything pass.
AnyPersona = Annotated[str, OneOf("", *Persona.values)]
AnyScope = Annotated[str, OneOf("", *Scope.values)]
AnyEpisodeOutcome = Annotated[str, OneOf("", *Episode.Outcome.values)]
AnyDecisionOutcome = Annotated[str, OneOf("", *Decision.Outcome.values)]
AnyStakes = Annotated[str, OneOf("", *Decision.Stakes.values)]
AnySeverity = Annotated[str, OneOf("", *Censor.Severity.values)]
AnyReviewKind = Annotated[str, OneOf("", *MemoryReview.Kind.values)]
AnyJobStatus = Annotated[str, OneOf("", *Job.Status.values)]

Content = Annotated[str, text(MAX_CONTENT_CHARACTERS)]
RequiredContent = Annotated[str, text(MAX_CONTENT_CHARACTERS, min_length=1)]
Detail = Annotated[str, text(MAX_DETAIL_CHARACTERS)]
Remark = Annotated[str, text(MAX_REMARK_CHARACTERS)]
RequiredRemark = Annotated[str, text(MAX_REMARK_CHARACTERS, min_length=1)]
RemarkEntry = Annotated[str, entry(MAX_REMARK_CHARACTERS)]
Tag = Annotated[str, entry(50)]
Tags = Annotated[list[Tag], Field(max_length=MAX_TAGS)]


class OriginIn(Input):
    origin: Origin = ""


class ReasonIn(Input):
    reason: Remark = ""


class MemoryIn(OriginIn):
    tags: Tags = []
    scope: ScopeName = "global"
    project: ProjectKey = ""
    task: TaskKey = ""
    user: UserKey = ""
    importance: UnitInterval = 0.5


class ExpiryIn(Input):
    expires_at: AwareDatetime | None = Field(None, description="From then on it is left out everywhere; erased later")
    ttl: Annotated[int, Field(ge=1, le=MAX_TTL_SECONDS)] | None = Field(
        None, description="Alternative: in how many seconds it expires"
    )


class SourceRefIn(Input):
    url: Annotated[str, text(MAX_LOCATOR_CHARACTERS)] = Field("", description="Address; nothing here opens it")
    path: Annotated[str, text(MAX_LOCATOR_CHARACTERS)] = Field("", description="Alternative: a path or another name")
    sha256: str = Field(pattern="^[0-9a-fA-F]{64}$", description="Digest of what was read")
    seen_at: AwareDatetime | None = Field(None, description="When it was read; now by default")


class SourcedIn(Input):
    source_ref: SourceRefIn | None = Field(None, description="What it was read from, to be told when that has changed")


class ExpirySetIn(ExpiryIn):
    """Without `expires_at` and `ttl` it does not expire any more."""

    reason: Remark = Field("", description="Reason; kept in the audit trail")


class MemoryPatch(Input, of=MemoryIn, fields="tags scope project task user importance", patch=True):
    project: ProjectKey = optional("Moves it to this one; empty for none")
    task: TaskKey = optional("Moves it to this one; empty for none")
    user: UserKey = optional("Makes it this user's; \"*\" for everybody's")


METADATA: dict[str, Any] = {
    "tags": list[str],
    "scope": ScopeName,
    "project": str,
    "task": str,
    "user": str,
    "importance": UnitInterval,
    "trust": TrustName,
    "quarantined": Quarantined,
    "pending": Pending,
    "review": AskedIn,
    "active": bool,
}


class MemoryOut(Derived):
    """A memory in an answer: first its id and persona, then the fields of its type, then METADATA."""

    id: UUID
    persona: PersonaName

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.__annotations__ = {**cls.__annotations__, **(METADATA | cls.__annotations__)}
