"""Types and fields that the schemas of several memories share; memory/policy/__init__.py has their limits."""

from typing import Annotated, Any
from uuid import UUID

from ninja import Query
from pydantic import Field

from identity.models import Persona
from memory.models import Censor, Decision, Episode, EventKind, ItemType, Job, MemoryReview, Scope, Trust
from memory.policy import MAX_CONTENT_CHARACTERS, MAX_DETAIL_CHARACTERS, MAX_PROJECTS, MAX_REMARK_CHARACTERS
from nousweb.lib.constrained_types import MAX_TAGS, OneOf, ProjectKey, TaskKey, UnitInterval, entry, text
from nousweb.lib.schemas import Derived, Input, optional

PersonaName = Annotated[str, OneOf(*Persona.values)]
ScopeName = Annotated[str, OneOf(*Scope.values), Field(description="Scope of the memory")]
ItemTypeName = Annotated[str, OneOf(*ItemType.values)]
EventKindName = Annotated[str, OneOf(*EventKind.values)]
EpisodeOutcome = Annotated[str, OneOf(*Episode.Outcome.values)]
SummaryKind = Annotated[str, OneOf(*Episode.SummaryKind.values)]
DecisionOutcome = Annotated[str, OneOf(*Decision.Outcome.values)]
Stakes = Annotated[str, OneOf(*Decision.Stakes.values)]
CensorMatch = Annotated[str, OneOf(*Censor.Match.values)]
Severity = Annotated[str, OneOf(*Censor.Severity.values)]
ReviewKind = Annotated[str, OneOf(*MemoryReview.Kind.values)]
ReviewStatus = Annotated[str, OneOf(*MemoryReview.Status.values)]
JobStatus = Annotated[str, OneOf(*Job.Status.values)]

TRUST = "Trust class: the least trusted of its sources; person after a person has allowed it"
TrustName = Annotated[str, OneOf(*Trust.values), Field(description=TRUST)]
AnyTrust = Annotated[str, OneOf("", *Trust.values), Field(description="Only memories of this trust class")]
Quarantined = Annotated[bool, Field(description="Quarantined: not in prompts or searches until a person allows it")]

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


class MemoryIn(Input):
    tags: Tags = []
    scope: ScopeName = "global"
    project: ProjectKey = ""
    task: TaskKey = ""
    importance: UnitInterval = 0.5


class MemoryPatch(Input):
    tags: Tags = optional()
    scope: ScopeName = optional()
    project: ProjectKey = optional("Moves it to this one; empty for none")
    task: TaskKey = optional("Moves it to this one; empty for none")
    importance: UnitInterval = optional()


METADATA: dict[str, Any] = {
    "tags": list[str],
    "scope": ScopeName,
    "project": str,
    "task": str,
    "importance": UnitInterval,
    "trust": TrustName,
    "quarantined": Quarantined,
    "active": bool,
}


class MemoryOut(Derived):
    """A memory in an answer: first its id and persona, then the fields of its type, then METADATA."""

    id: UUID
    persona: PersonaName

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.__annotations__ = {**cls.__annotations__, **(METADATA | cls.__annotations__)}
