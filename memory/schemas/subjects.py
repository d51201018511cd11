"""Schemas of the API of subjects."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from ninja import Schema
from pydantic import Field

from memory.models import Subject, SubjectAlias, SubjectChange
from memory.models.subjects import MAX_SPELLING_CHARACTERS
from memory.policy import MAX_FACTS_OF_SPLIT
from memory.schemas.types import PersonaName, Remark
from nousweb.lib.constrained_types import NextCursor, OneOf, text
from nousweb.lib.schemas import Input, optional

SubjectKind = Annotated[str, OneOf(*Subject.Kind.values)]
AnySubjectKind = Annotated[str, OneOf("", *Subject.Kind.values)]
Spelling = Annotated[str, text(MAX_SPELLING_CHARACTERS, min_length=1)]


class SubjectAliasOut(Schema):
    id: UUID
    spelling: str
    origin: Annotated[str, OneOf(*SubjectAlias.Origin.values)] = Field(
        description="seen: in a fact; given: by a person"
    )


class SubjectOut(Schema):
    id: UUID
    persona: PersonaName
    name: str
    kind: SubjectKind
    is_user: bool = Field(description="Whether it is the user of the agent")
    aliases: list[SubjectAliasOut] = Field(description="All its spellings, the oldest first")
    facts: int = Field(description="Number of active facts about it")
    merged_into: UUID | None = Field(None, alias="merged_into_id", description="The subject that it was merged into")
    created_at: datetime

    @staticmethod
    def resolve_aliases(subject: Subject) -> list[SubjectAlias]:
        return list(subject.aliases.all())

    @staticmethod
    def resolve_facts(subject: Subject) -> int:
        return int(getattr(subject, "facts", 0))


class SubjectPage(Schema):
    items: list[SubjectOut]
    next: NextCursor


SOLE_USER = "Whether it is the user of the agent; a memory has one user, so this replaces the previous one"


class SubjectIn(Input):
    name: Spelling
    kind: SubjectKind = "other"
    is_user: bool = Field(False, description=SOLE_USER)


class SubjectPatch(Input):
    """Fields that are left out stay as they are."""

    name: Spelling = optional()
    kind: SubjectKind = optional()
    is_user: bool = optional(SOLE_USER)
    reason: Remark = ""


class SubjectAliasIn(Input):
    spelling: Spelling = Field(description="New spelling of this subject")
    reason: Remark = ""


class SubjectMergeIn(Input):
    into: UUID = Field(description="The subject that gets all spellings")
    reason: Remark = ""


class SubjectSplitIn(Input):
    aliases: list[UUID] = Field([], max_length=200, description="Spellings of the other subject")
    facts: list[UUID] = Field(
        [], max_length=MAX_FACTS_OF_SPLIT, description="Facts about another subject with the same name"
    )
    name: Annotated[str, text(MAX_SPELLING_CHARACTERS)] = Field(
        "", description="Name of the other subject; required for facts"
    )
    reason: Remark = ""


class SubjectUndoIn(Input):
    change: UUID = Field(description="Id of a change in the history")
    reason: Remark = ""


class SubjectChangeOut(Schema):
    id: UUID
    at: datetime
    action: Annotated[str, OneOf(*SubjectChange.Action.values)]
    summary: str = Field(description="Summary of the change, in one sentence")
    other: UUID | None = Field(None, alias="other_id", description="The other subject of a merge or a split")
    author_kind: str
    author_name: str
    reason: str
    undone_at: datetime | None


class SubjectHistory(Schema):
    items: list[SubjectChangeOut]
    next: NextCursor
