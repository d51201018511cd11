"""Schemas of the API of facts."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, Field, model_validator

from memory.policy import DEFAULT_CATEGORY
from memory.schemas.types import PersonaName, Quarantined, Remark, RequiredContent, ScopeName, Tags, TrustName
from nousweb.lib.constrained_types import NextCursor, OptionalWord, ProjectKey, TaskKey, UnitInterval, Word, text
from nousweb.lib.schemas import Input, optional


class FactIn(Input):
    content: RequiredContent = Field(description="What is believed, as one sentence")
    subject: Annotated[str, text(200)] = Field("", description="Whom or what it is about")
    category: Word = Field(
        DEFAULT_CATEGORY,
        description="person, preference and rule are always in the prompt; others are searched",
    )
    kind: OptionalWord = ""
    scope: ScopeName = "global"
    project: ProjectKey = ""
    task: TaskKey = ""
    tags: Tags = []
    confidence: UnitInterval = 1.0
    importance: UnitInterval = 0.5
    source: Annotated[str, text(200)] = ""
    valid_from: AwareDatetime | None = Field(None, description="Since when it is true in the world")
    valid_until: AwareDatetime | None = Field(None, description="Until when it is true in the world")


class FactOut(Schema):
    id: UUID
    persona: PersonaName
    content: str
    subject: str
    category: str
    kind: str
    scope: ScopeName
    project: str
    task: str
    tags: list[str]
    confidence: UnitInterval
    importance: UnitInterval
    source: str
    trust: TrustName
    held: Quarantined
    active: bool
    confirmation_count: int
    last_confirmed_at: datetime | None
    superseded_by: UUID | None = Field(None, alias="superseded_by_id")
    valid_from: datetime | None
    valid_until: datetime | None
    recorded_at: datetime
    retired_at: datetime | None
    invalidated_at: datetime | None = Field(description="When it was found never to have been true")
    source_event: int | None = Field(None, alias="source_event_id")
    source_episode: UUID | None = Field(None, alias="source_episode_id")
    contradiction_of: UUID | None = Field(None, alias="contradiction_of_id")


class LearnOut(Schema):
    action: Literal["stored", "confirmed", "superseded", "queued", "decided", "held"] = Field(
        description="confirmed: known already, `fact` is the known one; superseded: it took the place of an old fact; "
        "queued: people are asked what it is to an old one, or, where `fact` is one that they found wrong, whether it "
        "holds after all, or, where `fact` says the very same of another subject, whether it holds of both: in these "
        "two cases nothing is stored; decided: nothing is stored, because they found `fact` wrong, and this names no "
        "source that they did not know, or because they said that `fact` does not hold of this "
        "subject; held: it reads like an instruction to the agent, and comes up nowhere before a person allows it"
    )
    fact: FactOut
    review: UUID | None = Field(None, description="The pending review of it, if there is one")
    superseded: list[UUID] = Field([], description="The facts whose place it took")

    @staticmethod
    def resolve_superseded(result: Any) -> list[UUID]:
        return [fact.pk for fact in result.superseded]


class FactPage(Schema):
    items: list[FactOut]
    next: NextCursor


class FactReasonIn(Input):
    reason: Remark = Field("", description="Why; kept in the history")


class SupersedeIn(FactReasonIn):
    by: FactIn | None = Field(
        None,
        description="The fact that takes its place; subject, category, kind, scope, tags, confidence and importance "
        "that are not given are taken from the old one",
    )
    fact_id: UUID | None = Field(None, description="Or a fact that is there already")
    at: AwareDatetime | None = Field(None, description="Since when, in the world, the new one is true")

    @model_validator(mode="after")
    def _one_replacement(self) -> "SupersedeIn":
        if (self.by is None) == (self.fact_id is None):
            raise ValueError("Give either by or fact_id.")
        return self


class SupersedeOut(Schema):
    action: Literal["superseded", "queued"] = Field(
        description="queued: nothing is replaced, and people are asked, because the old one is their word, or because "
        "`new` says the very same of another subject"
    )
    old: FactOut
    new: FactOut
    review: UUID | None = Field(None, description="The pending review of it")


class FactPatch(Input):
    """Fields that are left out stay as they are."""

    tags: Tags = optional()
    importance: UnitInterval = optional()
    category: Word = optional()
    scope: ScopeName = optional()
    project: ProjectKey = optional("Moves it there; empty for none")
    task: TaskKey = optional("Moves it there; empty for none")
    reason: Remark = ""


class FactChangeOut(Schema):
    at: datetime
    action: str
    author_kind: str
    author_name: str
    other: UUID | None = Field(None, alias="other_id", description="The other fact that it was about")
    score: float | None
    reason: str
    before: dict[str, Any] = Field(description="What the changed fields held before")


class FactHistory(Schema):
    items: list[FactChangeOut]
    next: NextCursor
